// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for min
#include <charconv>   // for from_chars
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <list>       // for list
#include <memory>     // for shared_ptr
#include <string>     // for string
#include <utility>    // for move

#include "async/detail/base/chrono.hpp"           // for steady_clock
#include "steps/interop/detail/nats/bridge.hpp"   // for bridge
#include "steps/interop/detail/nats/message.hpp"  // for message

namespace steps::inline v0_1::interop::nats::detail {

/// A job as it has been delivered.
struct job_state {
  job_state(const message& m, std::shared_ptr<bridge> b)
      : via(std::move(b)), subject(m.subject()), data(m.data()), id(m.header("Nats-Msg-Id")), reply(m.reply()) {
    // $JS.ACK.stream.consumer.deliveries.sequence.…: with a domain and an account, or without.
    std::uint64_t parts[12] = {};
    std::size_t count = 0;
    for (std::size_t at = 0; at < reply.size() && count < 12; ++count) {
      const std::size_t end = (std::min)(reply.find('.', at), reply.size());
      std::from_chars(reply.data() + at, reply.data() + end, parts[count]);
      at = end + 1;
    }
    delivery = parts[count > 9 ? 6 : 4];
    sequence = parts[count > 9 ? 7 : 5];
  }

  const std::shared_ptr<bridge> via;
  const std::string subject;
  const std::string data;
  const std::string id;
  const std::string reply;  // the subject for acknowledgements
  std::uint64_t delivery = 0;
  std::uint64_t sequence = 0;

  // The flow's, then of the thread that gives the job up.
  bool is_done = false;  // the server has confirmed the acknowledgement
  bool has_failed = false;
  std::string error_code{};
  std::string error_info{};
  std::string farewell = "-NAK";  // to be sent when nobody has the job any more; empty: nothing

  // Guarded by the worker's lock.
  std::chrono::steady_clock::time_point seen_at{};  // when the server has heard of it
  std::list<job_state*>::iterator place{};
};

}  // namespace steps::inline v0_1::interop::nats::detail
