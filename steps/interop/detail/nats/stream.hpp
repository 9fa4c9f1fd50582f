// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>   // for shared_ptr
#include <string>   // for string, to_string
#include <utility>  // for move

#include "steps/errors.hpp"                       // for errors
#include "steps/iasyncsteps.hpp"                  // for IAsyncSteps
#include "steps/interop/detail/nats/bridge.hpp"   // for bridge
#include "steps/interop/detail/nats/json.hpp"     // for json_of, api_error
#include "steps/interop/detail/nats/message.hpp"  // for parcel
#include "steps/interop/detail/nats/request.hpp"  // for request
#include "steps/interop/nats_options.hpp"         // for jobs_options, work_options
#include "steps/retry.hpp"                        // for Retry

/// Requests of flows to JetStream, in JSON.
namespace steps::inline v0_1::interop::nats::detail {

inline parcel make_stream(const jobs_options& o) {
  std::string subjects = json_of(o.subject);
  if (!o.dead_letter.empty()) subjects += ',' + json_of(o.dead_letter);
  return {.subject = "$JS.API.STREAM.CREATE." + o.stream,
          .data = "{\"name\":" + json_of(o.stream) + ",\"subjects\":[" + subjects +
                  "],\"retention\":\"workqueue\",\"storage\":" + (o.in_memory ? "\"memory\"" : "\"file\"") +
                  ",\"num_replicas\":" + std::to_string(o.replicas) + ",\"duplicate_window\":" + json_of(o.duplicates) +
                  ",\"max_consumers\":-1,\"max_msgs\":-1,\"max_bytes\":-1,\"max_age\":0,\"max_msg_size\":-1}"};
}
/// The server delivers for ever: workers count, and give up into the dead letters.
inline parcel make_consumer(const jobs_options& o, const work_options& w) {
  return {.subject = "$JS.API.CONSUMER.DURABLE.CREATE." + o.stream + '.' + w.consumer,
          .data = "{\"stream_name\":" + json_of(o.stream) + ",\"config\":{\"durable_name\":" + json_of(w.consumer) +
                  ",\"deliver_policy\":\"all\",\"ack_policy\":\"explicit\",\"replay_policy\":\"instant\"" +
                  ",\"ack_wait\":" + json_of(w.ack_wait) + ",\"filter_subject\":" + json_of(o.subject) +
                  ",\"max_deliver\":-1,\"max_ack_pending\":-1}}"};
}

/// Adds a step that sends a request of JetStream and passes the answer on. Errors that the server reports are errors of
/// the step; a server that is not ready yet is asked again for some seconds. `waits`: see publish_options.
inline void ask_server(IAsyncSteps& asi, const std::shared_ptr<bridge>& to, parcel p, bool waits,
                       unsigned accepted = 0) {
  using namespace std::chrono_literals;
  const Retry forever{.attempts = waits ? Retry::unlimited : 1, .delay = 20ms, .max_delay = 1s};
  asi.retry(forever.on(steps::errors::CommError, steps::errors::ConnectError, steps::errors::Timeout),
            [to, p = std::move(p), waits, accepted](IAsyncSteps& connected) {
              const Retry a_while{.attempts = 10, .delay = 20ms, .max_delay = 1s};
              connected.retry(a_while.on(errors::NoResponders), [&to, &p, waits, accepted](IAsyncSteps& attempt) {
                if (waits) attempt.setTimeout(5s);  // an answer may get lost without the connection
                attempt.add([&to, &p](IAsyncSteps& call) { request(call, to, p); });
                attempt.add([accepted](IAsyncSteps& answered, std::string answer) {
                  if (const api_error e(answer); e && e.number != accepted) {
                    answered.error(e.status == 503 ? errors::NoResponders : errors::JetStreamError,
                                   e.text + " (" + std::to_string(e.number) + ')');
                  }
                  answered.success(std::move(answer));
                });
              });
            });
}

}  // namespace steps::inline v0_1::interop::nats::detail
