// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>    // for clamp, max, min
#include <charconv>     // for from_chars
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t
#include <deque>        // for deque
#include <exception>    // for exception
#include <list>         // for list
#include <memory>       // for shared_ptr, unique_ptr, weak_ptr, make_unique
#include <mutex>        // for mutex, lock_guard
#include <string>       // for string, to_string
#include <string_view>  // for string_view
#include <utility>      // for move
#include <vector>       // for vector

#include "async/detail/base/chrono.hpp"                // for milliseconds, nanoseconds, seconds, steady_clock
#include "async/event.hpp"                             // for event
#include "steps/detail/wait/retry_step.hpp"            // for pauses
#include "steps/interop/detail/nats/bridge.hpp"        // for bridge
#include "steps/interop/detail/nats/job_state.hpp"     // for job_state
#include "steps/interop/detail/nats/json.hpp"          // for api_error, json_of, number_at, object_at, value_at
#include "steps/interop/detail/nats/message.hpp"       // for message, parcel
#include "steps/interop/detail/nats/stream.hpp"        // for make_stream, make_consumer, stream_is_another
#include "steps/interop/detail/nats/subscription.hpp"  // for subscription
#include "steps/interop/nats_options.hpp"              // for jobs_options, work_options
#include "steps/retry.hpp"                             // for Retry

namespace steps::inline v0_1::interop::nats::detail {

/// The worker that work() has begun: fetches as many jobs as there is room for, and tells the server which are under
/// way.
///
/// A fetch is a request for a number of jobs. The server answers the requests of a worker in their order, so jobs count
/// for the oldest, and ends each one that it has not answered in time by a status message.
///
/// Threads     any. The client calls arrived(), the bridge's thread connected(), lost() and tick().
class worker_state : public subscription {
 public:
  worker_state(std::shared_ptr<bridge> b, const jobs_options& j, work_options w)
      : worker_state(b, b->unique(), j, std::move(w)) {}

  /// Takes no further jobs.
  void stop() {
    if (is_left_behind()) return;
    {
      const std::lock_guard here(lock_);
      is_stopping_ = true;
    }
    bridge_->remove(shared_from_this());
    // While nats-server 2.9 keeps the fetch of a worker that is gone, the first job that is handed back is lost until
    // ack_wait. Asked for the consumer's state, the server drops such fetches.
    ask({.subject = "$JS.API.CONSUMER.INFO." + jobs_.stream + '.' + work_.consumer}, "gone");
  }
  bool is_stopping() {
    const std::lock_guard here(lock_);
    return is_stopping_;
  }
  bool is_left_behind() const noexcept { return bridge_->is_left_behind(); }
  async::event& stopped() noexcept { return stopped_; }
  /// The reason why there are no jobs.
  std::string failure() {
    if (is_left_behind()) return bridge_->failure();
    const std::lock_guard here(lock_);
    return failure_;
  }

 protected:
  /// A job with its place among those under way.
  using held = std::shared_ptr<job_state>;

  /// Hands a job to the pool.
  virtual void begin(held j) = 0;
  /// The same when the pool, which is full, may have room. The job stays under way.
  void begin_later(const held& j) {
    later(
        [j](worker_state& w) {
          if (!w.is_stopping()) w.begin(j);
        },
        std::chrono::milliseconds(100));
  }
  void failed(std::string why) {
    const std::lock_guard here(lock_);
    failure_ = std::move(why);
  }

  const std::shared_ptr<bridge> bridge_;
  const jobs_options jobs_;
  const work_options work_;

 private:
  using clock = std::chrono::steady_clock;

  worker_state(std::shared_ptr<bridge> b, const std::string& inbox, const jobs_options& j, work_options w)
      : subscription(inbox + '*', {}, -1), bridge_(std::move(b)), jobs_(j), work_(valid(std::move(w))), inbox_(inbox) {}
  static work_options valid(work_options w) {
    w.limit = std::clamp(w.limit, std::size_t{1}, std::size_t{65'536});
    w.most_deliveries = (std::max)(w.most_deliveries, w.retry.attempts);
    w.ack_wait = (std::max<std::chrono::nanoseconds>)(w.ack_wait, std::chrono::milliseconds(10));
    return w;
  }

  void connected() override {
    {
      const std::lock_guard here(lock_);
      is_in_doubt_ = true;
      last_check_ = {};
    }
    set_up();
    if (!is_ticking_) tick();
  }
  void lost() override {
    const std::lock_guard here(lock_);
    is_ready_ = false;
    fetches_.clear();
    requested_ = 0;
  }
  void ended() override {
    bool is_last = false;
    {
      const std::lock_guard here(lock_);
      is_stopping_ = true;
      has_ended_ = true;
      is_last = under_way_.empty();
    }
    if (is_last) stopped_.set();
  }

  void arrived(message m) override try {
    const std::string_view subject(m.subject());
    if (!subject.starts_with(inbox_)) return take(m);
    const std::string_view what = subject.substr(inbox_.size());
    if (what == "stream" || what == "consumer") return answered(what == "stream", m);
    if (what == "consumer_info") return check_consumer(m);
    if (what == "stream_info") return check_stream(m);
    const int status = m.status();
    if (status < 200) return;  // a sign of life
    std::uint64_t number = 0;
    std::from_chars(what.data(), what.data() + what.size(), number);
    end_fetches([number](const fetch& f) { return f.number == number; });
    if (status == 404 || status == 408) return refill();
    lost();  // there is no consumer, or a new one
    set_up_later();
  } catch (...) {  // for lack of memory
    const std::lock_guard here(lock_);
    set_up_at_ = {};  // an answer is lost, perhaps
    throw;
  }
  /// The file of a consumer lags behind that of the stream. So after a crash there may be jobs in the stream that
  /// the consumer takes for done, or jobs that it waits for and that are no longer in the stream. The former never
  /// come; the latter, if they are many, keep nats-server 2.9 from delivering anything at all.
  ///
  /// So after each connection, until no job is left, the worker looks whether there are other jobs than those that the
  /// server says are under way, while it delivers none for ack_wait. Then it makes the consumer anew, which delivers
  /// all. Jobs that the server has yet to deliver tell nothing as long as this worker has no room for them.
  void look_for_jobs() {
    {
      const std::lock_guard here(lock_);
      if (!is_in_doubt_ || !is_ready_) return;
    }
    ask({.subject = "$JS.API.CONSUMER.INFO." + jobs_.stream + '.' + work_.consumer}, "consumer_info");
  }
  void check_consumer(const message& m) {
    const std::string answer = m.data();
    if (answer.empty() || api_error(answer)) return;  // another time
    {
      const std::lock_guard here(lock_);
      acknowledging_ = number_at(answer, "num_ack_pending");
      delivered_ = number_at(value_at(answer, "delivered"), "consumer_seq");
      if (requested_ == 0 && number_at(answer, "num_pending") != 0) last_check_ = {};  // it may wait for room
    }
    ask({.subject = "$JS.API.STREAM.INFO." + jobs_.stream,
         .data = "{\"subjects_filter\":" + json_of(jobs_.subject) + '}'},
        "stream_info");
  }
  void check_stream(const message& m) {
    const std::string answer = m.data();
    if (answer.empty() || api_error(answer)) return;
    {
      const std::lock_guard here(lock_);
      const std::uint64_t left = number_at(object_at(answer, "subjects"), jobs_.subject);
      if (left == 0) {
        is_in_doubt_ = false;
        return;
      }
      if (left != last_check_.left || delivered_ != last_check_.delivered)
        last_check_ = {left, delivered_, clock::now()};
      if (left == acknowledging_ || clock::now() - last_check_.since < work_.ack_wait) return;
      last_check_ = {};
    }
    lost();
    remove_consumer();
    set_up_later();
  }
  /// To the requests of connected().
  void answered(bool is_stream, const message& m) {
    const api_error error(m.data());
    if (m.status() != 0 || error.status == 503) {  // not ready yet
      failed("JetStream is not available");
      return set_up_later();
    }
    if (error && error.number != stream_is_another) {
      failed(error.text + " (" + std::to_string(error.number) + ')');
      if (is_stream) return stop();
      // A server that has died while it made or removed the consumer may be left without its files.
      if (error.text.find("meta.inf") != error.text.npos) remove_consumer();
      steps::detail::pauses apart(Retry{.delay = std::chrono::milliseconds(1'500), .jitter = 0.9});
      return set_up_later(apart.next(static_cast<std::uint64_t>(clock::now().time_since_epoch().count())));
    }
    if (is_stream) return ask(make_consumer(jobs_, work_), "consumer");
    {
      const std::lock_guard here(lock_);
      is_ready_ = true;
      failure_.clear();
    }
    refill();
  }
  void take(const message& m) {
    std::unique_ptr<job_state> made;
    std::list<job_state*> place;
    try {
      made = std::make_unique<job_state>(m, bridge_);
      place.push_back(made.get());
    } catch (...) {
      const std::lock_guard here(lock_);
      count_delivery();
      throw;
    }
    bool is_late = false;
    {
      const std::lock_guard here(lock_);
      count_delivery();
      made->seen_at = clock::now();
      made->place = place.begin();
      under_way_.splice(under_way_.end(), place);
      is_late = is_stopping_;
    }
    const held j(made.release(), [self = shared_worker()](job_state* last) {
      self->leave(*last);
      delete last;
    });
    if (!is_late) begin(j);
    refill();
  }
  /// Under the lock.
  void count_delivery() noexcept {
    if (fetches_.empty()) return;
    --requested_;
    if (--fetches_.front().rest == 0) fetches_.pop_front();
  }
  void leave(job_state& j) noexcept {
    bool is_last = false;
    {
      const std::lock_guard here(lock_);
      under_way_.erase(j.place);
      is_last = under_way_.empty() && has_ended_;
    }
    try {
      if (!j.farewell.empty()) bridge_->send({.subject = j.reply, .data = j.farewell});
      refill();
    } catch (const std::exception&) {  // no memory: the server delivers the job again after ack_wait
    }
    if (is_last) stopped_.set();
  }

  /// Fetches as many as there is room for: when nothing is requested, or room for half of the limit.
  void refill() {
    std::uint64_t number = 0;
    std::size_t batch = 0;
    {
      const std::lock_guard here(lock_);
      const std::size_t taken = under_way_.size() + requested_;
      if (!is_ready_ || is_stopping_ || taken >= work_.limit) return;
      batch = work_.limit - taken;
      if (requested_ != 0 && batch * 2 < work_.limit) return;
      number = ++last_fetch_;
      fetches_.push_back({number, batch, clock::now()});
      requested_ += batch;
    }
    try {
      ask({.subject = "$JS.API.CONSUMER.MSG.NEXT." + jobs_.stream + '.' + work_.consumer,
           .data = "{\"batch\":" + std::to_string(batch) + ",\"expires\":" + json_of(fetch_time) + '}'},
          std::to_string(number));
    } catch (...) {
      end_fetches([number](const fetch& f) { return f.number == number; });
      throw;
    }
  }
  struct fetch {
    std::uint64_t number;
    std::size_t rest;
    clock::time_point since;
  };
  template <class F>
  void end_fetches(F f) {
    const std::lock_guard here(lock_);
    std::erase_if(fetches_, [&](const fetch& each) {
      if (f(each)) requested_ -= each.rest;
      return f(each);
    });
  }

  /// From time to time, on the bridge's thread: prolongs what is under way, also after the end, and forgets fetches
  /// whose end got lost.
  void tick() {
    is_ticking_ = false;  // without memory connected() goes on
    const auto now = clock::now();
    std::vector<std::string> late;
    bool has_no_answer = false, has_ended = false;
    {
      const std::lock_guard here(lock_);
      has_ended = has_ended_;
      if (has_ended && under_way_.empty()) return;
      has_no_answer = !is_ready_ && now - set_up_at_ > longest_answer;
      for (job_state* const j : under_way_) {
        if (now - j->seen_at < pause() / 2) continue;
        j->seen_at = now;
        late.push_back(j->reply);
      }
    }
    for (std::string& each : late) bridge_->send({.subject = std::move(each), .data = "+WPI"});
    if (!has_ended) {
      end_fetches([now](const fetch& f) { return now - f.since > 2 * fetch_time; });
      has_no_answer ? set_up() : refill();
      look_for_jobs();
    }
    later([](worker_state& w) { w.tick(); }, pause());
    is_ticking_ = true;
  }
  std::chrono::nanoseconds pause() const {
    return (std::min<std::chrono::nanoseconds>)(work_.ack_wait / 3, fetch_time);
  }
  /// Asks for the stream, then for the consumer; see answered().
  void set_up() {
    {
      const std::lock_guard here(lock_);
      set_up_at_ = clock::now();
    }
    ask(make_stream(jobs_), "stream");
  }
  void set_up_later(std::chrono::nanoseconds delay = std::chrono::milliseconds(100)) {
    later([](worker_state& w) { w.set_up(); }, delay);
  }
  template <class F>
  void later(F f, std::chrono::nanoseconds delay) {
    bridge_->post(
        [f, self = std::weak_ptr<worker_state>(shared_worker())] {
          if (const auto w = self.lock()) f(*w);
        },
        delay);
  }

  void remove_consumer() {
    bridge_->send({.subject = "$JS.API.CONSUMER.DELETE." + jobs_.stream + '.' + work_.consumer});
  }
  void ask(parcel p, const std::string& what) {
    p.reply = inbox_ + what;
    bridge_->send(std::move(p));
  }
  std::shared_ptr<worker_state> shared_worker() { return std::static_pointer_cast<worker_state>(shared_from_this()); }

  static constexpr std::chrono::nanoseconds fetch_time = std::chrono::seconds(10);
  static constexpr std::chrono::nanoseconds longest_answer = std::chrono::seconds(5);

  const std::string inbox_;  // ends with a dot
  bool is_ticking_ = false;  // the bridge's thread's
  async::event stopped_;
  std::mutex lock_;  // guards the rest
  std::list<job_state*> under_way_;
  std::deque<fetch> fetches_;  // oldest first
  std::size_t requested_ = 0;  // by these
  std::uint64_t last_fetch_ = 0;
  bool is_ready_ = false;
  bool is_stopping_ = false;
  bool has_ended_ = false;
  clock::time_point set_up_at_{};
  std::string failure_;

  // For look_for_jobs():
  struct observation {
    std::uint64_t left = 0;  // jobs in the stream
    std::uint64_t delivered = 0;
    clock::time_point since{};
  };
  bool is_in_doubt_ = false;
  std::uint64_t acknowledging_ = 0;  // jobs that the server waits for
  std::uint64_t delivered_ = 0;
  observation last_check_;
};

}  // namespace steps::inline v0_1::interop::nats::detail
