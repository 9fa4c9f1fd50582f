// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>     // for uint64_t
#include <functional>  // for invoke
#include <memory>      // for shared_ptr
#include <string>      // for string, to_string
#include <utility>     // for forward, move

#include "async/detail/base/chrono.hpp"                // for nanoseconds
#include "async/errors.hpp"                            // for queue_full, stopped
#include "async/threadpool.hpp"                        // for threadpool
#include "steps/detail/wait/retry_step.hpp"            // for pauses
#include "steps/errors.hpp"                            // for ErrorCode, errors
#include "steps/iasyncsteps.hpp"                       // for IAsyncSteps
#include "steps/interop/detail/nats/bridge.hpp"        // for bridge
#include "steps/interop/detail/nats/job_state.hpp"     // for job_state
#include "steps/interop/detail/nats/json.hpp"          // for json_of
#include "steps/interop/detail/nats/message.hpp"       // for error_code_of
#include "steps/interop/detail/nats/stream.hpp"        // for ask_server
#include "steps/interop/detail/nats/worker_state.hpp"  // for worker_state
#include "steps/interop/nats_options.hpp"              // for jobs_options, work_options
#include "steps/spawn.hpp"                             // for post

namespace steps::inline v0_1::interop::nats::detail {

/// Adds steps that end when the server knows that a job is done.
inline void acknowledge_job(IAsyncSteps& asi, const std::shared_ptr<job_state>& j) {
  ask_server(asi, j->via, {.subject = j->reply, .data = "+ACK"}, true);
  asi.add([j](IAsyncSteps&) {
    j->is_done = true;
    j->farewell = "";
  });
}

/// The flows of jobs. Job: the type that f(IAsyncSteps&, Job) sees.
template <class Job, class F>
class worker_of final : public worker_state {
 public:
  template <class G>
  worker_of(std::shared_ptr<bridge> b, const jobs_options& j, async::threadpool& p, work_options w, G&& f)
      : worker_state(std::move(b), j, std::move(w)), pool_(p), function_(std::forward<G>(f)) {}

 private:
  void begin(held j) override try {
    static_cast<void>(steps::post(pool_, [this, j](IAsyncSteps& asi) { run(asi, j); }));  // j holds this
  } catch (const async::queue_full&) {
    begin_later(j);
  } catch (const async::stopped&) {
    stop();
  }

  void run(IAsyncSteps& asi, const held& j) {
    if (is_stopping()) return;  // another worker gets it
    if (j->delivery > work_.most_deliveries) {
      has_failed(*j, errors::TooManyDeliveries, "delivered " + std::to_string(j->delivery - 1) + " times before");
    } else {
      asi.add([this, j](IAsyncSteps& step) { std::invoke(function_, step, Job(j)); },
              [j](IAsyncSteps& failed, ErrorCode code) {
                has_failed(*j, code, failed.state().error_info());
                failed.success();
              });
    }
    asi.add([this, j](IAsyncSteps& end) {
      if (!j->is_done) j->has_failed ? fail(end, j) : acknowledge(end, j);
    });
  }
  static void has_failed(job_state& j, ErrorCode code, std::string_view info) {
    j.has_failed = true;
    j.error_code = error_code_of(code.view());
    j.error_info = info;
  }

  void acknowledge(IAsyncSteps& end, const held& j) {
    j->farewell = "+ACK";
    if (work_.confirm) acknowledge_job(end, j);
  }
  void fail(IAsyncSteps& end, const held& j) {
    const bool is_last = j->delivery >= work_.retry.attempts || j->error_code == errors::GiveUp.view();
    if (!is_last) {
      j->farewell = again_after(*j);
    } else if (jobs_.dead_letter.empty()) {
      j->farewell = "+TERM";
    } else {
      end.add(
          [this, j](IAsyncSteps& step) {
            ask_server(step, bridge_,
                       {.subject = jobs_.dead_letter,
                        .data = j->data,
                        .id = "dead." + jobs_.stream + '.' + std::to_string(j->sequence),
                        .error_code = j->error_code,
                        .error_info = j->error_info},
                       true);
          },
          [this, j](IAsyncSteps& refused, ErrorCode code) {
            failed("a dead letter was refused: " + std::string(code) + ": " + refused.state().error_info().str());
            j->farewell = again_after(*j);
          });
      end.add([this, j](IAsyncSteps& stored) { acknowledge(stored, j); });
    }
  }
  std::string again_after(const job_state& j) const {
    steps::detail::pauses all(work_.retry);
    std::chrono::nanoseconds last{};
    for (std::uint64_t i = 0; i < j.delivery && i < 100; ++i) last = all.next(j.sequence + i);
    return "-NAK {\"delay\":" + json_of(last) + '}';
  }

  async::threadpool& pool_;
  F function_;
};

}  // namespace steps::inline v0_1::interop::nats::detail
