// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <nats/nats.h>
#include <poll.h>

#include <algorithm>           // for min
#include <atomic>              // for atomic
#include <charconv>            // for from_chars, to_chars
#include <condition_variable>  // for condition_variable
#include <cstddef>             // for size_t
#include <cstdint>             // for uint64_t
#include <cstring>             // for strlen
#include <exception>           // for exception, exception_ptr
#include <iterator>            // for end
#include <list>                // for list, erase_if
#include <memory>              // for shared_ptr, unique_ptr, make_unique, enable_shared_from_this, make_shared
#include <mutex>               // for mutex, lock_guard, unique_lock, try_to_lock, try_to_lock_t
#include <new>                 // for bad_alloc
#include <string>              // for string, to_string
#include <string_view>         // for string_view
#include <thread>              // for thread, this_thread
#include <utility>             // for exchange, forward, move

#include "async/blocking_pool.hpp"                     // for blocking_pool
#include "async/detail/base/chrono.hpp"                // for ceil, hours, milliseconds, nanoseconds, steady_clock
#include "async/detail/base/forks.hpp"                 // for fork_member, fork_stage, forks
#include "async/event.hpp"                             // for event
#include "async/event_loop.hpp"                        // for event_loop
#include "steps/detail/wait/retry_step.hpp"            // for pauses
#include "steps/interop/detail/nats/call_table.hpp"    // for call_table, fail_call, waiting_call
#include "steps/interop/detail/nats/link.hpp"          // for link
#include "steps/interop/detail/nats/message.hpp"       // for message, parcel, publish
#include "steps/interop/detail/nats/polling.hpp"       // for polling
#include "steps/interop/detail/nats/subscription.hpp"  // for subscription
#include "steps/interop/detail/nats/waker.hpp"         // for waker
#include "steps/interop/nats_options.hpp"              // for options

namespace steps::inline v0_1::interop::nats::detail {

/// A bus: its thread polls the socket of the client's connection, writes what flows want to send, and connects anew.
/// "The bridge's thread" is the one that has the turns, see polling.
///
/// Threads     any, unless stated otherwise. No call blocks, but for close().
/// Exceptions  std::bad_alloc goes to callers. On the bridge's thread it ends the connection: the next one does again
///             what was left undone. Calls, parcels and subscriptions that the bridge has need no memory there.
/// Fork        left behind: in a child no call takes a lock, for a thread of the parent may have it.
/// Lifetime    flows and callbacks hold it; what they send after close() fails.
class bridge final : public std::enable_shared_from_this<bridge>, public polling, async::detail::fork_member {
 public:
  explicit bridge(options o) : fork_member(&forked), options_(std::move(o)), pauses_(options_.reconnect) {
    natsInbox* made = nullptr;
    if (natsInbox_Create(&made) != NATS_OK) throw std::bad_alloc();
    inbox_ = std::string(made) + '.';
    natsInbox_Destroy(made);
  }
  bridge(const bridge&) = delete;
  bridge& operator=(const bridge&) = delete;
  ~bridge() { async::detail::forks.value.leave(*this); }

  /// This is a child of fork(), whose parent has the bridge. Nothing of it may be used or destroyed.
  bool is_left_behind() const noexcept {
    return is_left_behind_.load(std::memory_order_relaxed);  // relaxed: written while the child has one thread
  }

  /// Once, by the bus.
  void start() {
    async::detail::forks.value.join(*this);
    subscriptions_.push_back(std::make_shared<replies>(*this));
    loop_->on_unhandled([this](const std::exception_ptr&) noexcept { has_failed_ = true; });
    connect();
    thread_ = std::thread([this] { run(); });
  }
  /// Once, by the bus: joins the thread.
  void close() {
    {
      const std::lock_guard here(lock_);
      is_closed_ = true;
      loop_->post([this] { is_closing_ = true; });  // after all that others have posted
    }
    thread_.join();
    std::unique_ptr<async::event_loop> last;  // with callbacks that refer to this
    const std::lock_guard here(lock_);
    last = std::move(loop_);
  }
  /// Calls f() on the bridge's thread, after `delay`. False: the bus has ended, and it will not.
  template <class F>
  bool post(F&& f, std::chrono::nanoseconds delay = {}) {
    if (is_left_behind()) return false;
    if (delay == delay.zero()) {
      return hand_in([this, work = std::forward<F>(f)]() mutable {
        const counted here{done_};
        work();
      });
    }
    const std::lock_guard here(lock_);
    if (is_closed_) return false;
    loop_->deferred(delay, std::forward<F>(f)).reset();
    return true;
  }

  /// Up to so many calls, or requests, at a time need not be gathered: see send().
  static constexpr std::size_t few = 1;
  /// Sends a parcel. Without a connection one without a call is dropped, and a call fails. `at_once`: the calling
  /// thread writes it, if nobody uses the connection, which saves a change of threads. Else the bridge's thread does,
  /// together with others.
  void send(parcel p, bool at_once = false) {
    if (at_once && !is_left_behind() && send_here(p)) return;
    const std::uint64_t call = p.call;
    std::list<parcel> one;
    one.push_back(std::move(p));
    const bool is_taken = hand_in([this, kept = std::move(one)]() mutable { outgoing_.splice(outgoing_.end(), kept); });
    if (!is_taken && call != 0) fail_call(take_call(call), steps::errors::Stopped, "the bus has ended");
  }
  /// Takes a subscription over, until remove().
  void add(std::shared_ptr<subscription> s) {
    std::list<std::shared_ptr<subscription>> one(1, s);
    const bool is_taken = post([this, kept = std::move(one)]() mutable {
      subscriptions_.splice(subscriptions_.end(), kept);
      if (link_ != nullptr) begin(*subscriptions_.back());
    });
    if (!is_taken) s->remove();
  }
  /// Messages that the server has sent before it learns of this still arrive; then the subscription is told that it has
  /// ended.
  void remove(std::shared_ptr<subscription> s) {
    post([this, s = std::move(s)] {
      has_failed_ = lacks_resources(s->drain()) || has_failed_;
      s->remove();
    });
  }

  /// A new call; without a number when the bus has ended.
  call_table::begun begin_call(waiting_call done) {
    return is_left_behind() ? call_table::begun() : calls_->begin(std::move(done));
  }
  /// The call's wait, see call_table::take().
  waiting_call take_call(std::uint64_t number) { return is_left_behind() ? waiting_call() : calls_->take(number); }
  /// Set while there is a connection.
  async::event& connected() noexcept { return connected_; }
  /// A text that no other call returns, on any machine: a prefix for subjects of answers, an id.
  std::string unique() {
    if (is_left_behind()) return inbox_;
    const std::lock_guard here(lock_);
    return inbox_ + std::to_string(++uniques_) + '.';
  }
  /// The reason why there is no connection; empty: there is one.
  std::string failure() {
    if (is_left_behind()) return "a child of fork() cannot use the bus of its parent";
    const std::lock_guard here(lock_);
    return failure_;
  }

 private:
  using clock = std::chrono::steady_clock;

  /// The subscription for the answers of all calls. Each call's subject ends with its number.
  class replies final : public subscription {
   public:
    explicit replies(bridge& b) : subscription(b.inbox_ + '*', {}, -1), calls_(b.calls_), prefix_(b.inbox_.size()) {}
    void arrived(message m) override {
      const char* const subject = m.subject();
      std::uint64_t number = 0;
      std::from_chars(subject + prefix_, subject + std::strlen(subject), number);
      const waiting_call done = calls_->take(number);
      if (!done) return;
      steps::detail::completion_access::end(done, [&done, &m] {
        if (natsMsg_IsNoResponders(m.get())) {
          done.error(errors::NoResponders, "nobody serves the subject");
        } else if (const std::string code = m.header(error_code_header); !code.empty()) {
          done.error(code, m.header(error_info_header));
        } else {
          done.success(m.data());
        }
      });
    }
    bool may_poll() override { return calls_->in_flight() <= few; }

   private:
    const std::shared_ptr<call_table> calls_;
    const std::size_t prefix_;
  };

  /// The right of the calling thread to use the link. No thread has it while it sleeps or calls foreign code.
  class exclusive {
   public:
    explicit exclusive(bridge& b) : lock_(b.io_) { link::writes_soon = true; }
    exclusive(bridge& b, std::try_to_lock_t how) : lock_(b.io_, how) {
      if (lock_) link::writes_soon = true;
    }
    exclusive(const exclusive&) = delete;
    exclusive& operator=(const exclusive&) = delete;
    ~exclusive() {
      if (lock_) link::writes_soon = false;
    }
    explicit operator bool() const noexcept { return lock_.owns_lock(); }

   private:
    const std::unique_lock<std::mutex> lock_;
  };

  static bool forked(fork_member& member, async::detail::fork_stage at) noexcept {
    if (at != async::detail::fork_stage::in_child) return true;
    // relaxed: there is one thread
    static_cast<bridge&>(member).is_left_behind_.store(true, std::memory_order_relaxed);
    return false;
  }

  /// Counts work that has been done, or has failed.
  struct counted {
    explicit counted(std::size_t& c) noexcept : count(c) {}
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
    ~counted() { ++count; }
    std::size_t& count;
  };

  /// A link on its way: one that the thread does not take any more is closed.
  struct opening {
    opening() noexcept = default;
    opening(const opening&) = delete;
    opening& operator=(const opening&) = delete;
    ~opening() {
      if (made != nullptr) made->close(std::chrono::milliseconds(0));
    }
    /// Blocks.
    void open(const options& how, const std::shared_ptr<waker>& wakes) noexcept try {
      try {
        auto l = std::make_shared<link>(how, wakes);
        failure = l->open();
        if (failure.empty()) made = std::move(l);
      } catch (const std::bad_alloc&) {
        throw;
      } catch (const std::exception& error) {
        failure = "options::configure has thrown: " + std::string(error.what());
      } catch (...) {
        failure = "options::configure has thrown";
      }
    } catch (const std::exception&) {
      failure = "no memory";  // needs none
    }

    std::shared_ptr<link> made;  // null: it has failed
    std::string failure;
  };

  template <class F>
  bool hand_in(F&& f) {
    if (is_left_behind()) return false;
    const std::lock_guard here(lock_);
    if (is_closed_) return false;
    loop_->post(std::forward<F>(f));
    ++waiting_;
    return true;
  }

  /// Writes a parcel after all that the caller has handed in. False: that is the bridge's thread's to do.
  bool send_here(const parcel& p) {
    {
      const std::lock_guard here(lock_);
      if (is_closed_ || waiting_ != 0) return false;
    }
    natsStatus s = NATS_OK;
    {
      const exclusive here(*this, std::try_to_lock);
      if (!here || link_ == nullptr || !link_->never_blocks() || link_->wants_to_write()) return false;
      if (p.call != 0 && !calls_->mark_sent(p.call)) return true;
      s = hand_over(p);
      link_->flush();
      if (link_->wants_to_write()) waker_->wake();
    }
    if (s != NATS_OK) not_sent(p, s);
    return true;
  }

  bool begin_turns() override {
    {
      const std::lock_guard here(lock_);
      rivals_ += is_wanted_ ? 1 : 0;
      if (is_wanted_ || is_closed_) return false;
      is_wanted_ = true;
    }
    waker_->wake();
    turns_.lock();
    return true;
  }
  bool have_turn() override {
    if (!is_closing_) turn();
    return !is_closing_;
  }
  void end_turns() noexcept override {
    {
      const std::lock_guard here(lock_);
      is_wanted_ = false;
    }
    turns_.unlock();
    given_back_.notify_one();
  }
  std::uint64_t rivals() override {
    const std::lock_guard here(lock_);
    return rivals_;
  }
  bool is_wanted() {
    const std::lock_guard here(lock_);
    return is_wanted_;
  }

  // --- all that follows is of the thread that has the turns ---------------------------------------------------------

  void run() {
    std::unique_lock mine(turns_);
    while (!is_closing_) {
      turn();
      if (is_wanted()) given_back_.wait(mine, [this] { return !is_wanted(); });
    }
    if (link_ != nullptr) {
      const auto end = clock::now() + std::chrono::milliseconds(900);
      write_rest(end);
      {
        const exclusive here(*this);
        link_->close(std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()));
      }
      lose();
    }
    std::shared_ptr<opening> last;
    {
      const std::lock_guard here(lock_);
      last = std::move(opened_);
    }
    for (const auto& s : subscriptions_) s->remove();
    subscriptions_.clear();
    calls_->close(steps::errors::CommError, "the bus has ended");
  }
  void turn() noexcept {
    try {
      try_turn();
    } catch (...) {  // for lack of memory; or there is no thread to connect
      has_failed_ = true;
    }
    if (has_failed_) recover();
  }
  /// Something is left undone. All is begun anew with another connection.
  void recover() noexcept {
    has_failed_ = false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // others may give memory back
    if (link_ == nullptr) return;
    const exclusive here(*this);
    link_->close(std::chrono::milliseconds(0));
  }
  void try_turn() {
    const auto due = loop_->iterate();
    if (link_ == nullptr) look_for_link();
    write();
    if (done_ != 0) {
      const std::lock_guard here(lock_);
      waiting_ -= std::exchange(done_, 0);
    }
    if (is_closing_ || has_failed_) return;
    const auto delay = std::chrono::ceil<std::chrono::milliseconds>((std::min)(due.delay, longest));
    wait(may_write() ? 0 : due.have_work ? static_cast<int>(delay.count()) : -1);
    if (link_ != nullptr && link_->is_over()) lose();
    std::erase_if(subscriptions_, [](const auto& s) {
      if (!s->is_over()) return false;
      s->end();
      return true;
    });
  }
  void wait(int milliseconds) {
    pollfd files[2] = {{waker_->file(), POLLIN, 0}, {-1, POLLIN, 0}};
    if (link_ != nullptr) {
      files[1].fd = link_->file();
      if (link_->wants_to_write()) files[1].events = POLLIN | POLLOUT;
    }
    ::poll(files, 2, milliseconds);
    if (files[0].revents != 0) {
      waker_->drain();
      // Under load others have more to send, which then goes out together.
      if (last_burst_ >= 4) std::this_thread::yield();
    }
    if (link_ == nullptr || files[1].revents == 0) return;
    const exclusive here(*this);
    if ((files[1].revents & ~POLLOUT) != 0) link_->receive();
    link_->flush();
  }

  /// At the end: what is to be sent, as far as the server takes it in time.
  void write_rest(clock::time_point end) noexcept try {
    while (!outgoing_.empty() && !link_->is_over() && clock::now() < end) {
      write();
      wait(may_write() ? 0 : 10);
    }
  } catch (...) {  // for lack of memory
  }
  /// Parcels wait, and the client has written all that it had.
  bool may_write() const { return !outgoing_.empty() && link_ != nullptr && !link_->wants_to_write(); }
  /// Hands parcels to the client, as long as it does not have too much of them, and lets it write them all at once.
  void write() {
    if (!outgoing_.empty()) last_burst_ = outgoing_.size();
    if (link_ == nullptr) {
      for (; !outgoing_.empty(); outgoing_.pop_front(), ++done_) {
        fail(outgoing_.front(), steps::errors::ConnectError, failure());
      }
      return;
    }
    while (write_up_to_refused()) {
    }
  }
  /// False: nothing was refused.
  bool write_up_to_refused() {
    std::list<parcel> refused;
    natsStatus s = NATS_OK;
    {
      const exclusive here(*this);
      while (s == NATS_OK && !outgoing_.empty() && natsConnection_Buffered(link_->get()) <= most_buffered) {
        const parcel& p = outgoing_.front();
        if (p.call == 0 || calls_->mark_sent(p.call)) s = hand_over(p);
        if (s != NATS_OK) refused.splice(refused.end(), outgoing_, outgoing_.begin());
        if (s == NATS_OK) outgoing_.pop_front();
        ++done_;
      }
      link_->flush();
    }
    if (!refused.empty()) not_sent(refused.front(), s);
    return !refused.empty();
  }
  natsStatus hand_over(const parcel& p) noexcept try {
    char reply[128];
    const char* to = p.reply.c_str();
    if (p.call != 0) {
      const std::size_t prefix = inbox_.copy(reply, sizeof reply - 24);
      *std::to_chars(reply + prefix, std::end(reply) - 1, p.call).ptr = '\0';
      to = reply;
    }
    return publish(link_->get(), p, to);
  } catch (const std::exception&) {
    return NATS_NO_MEMORY;
  }
  void not_sent(const parcel& p, natsStatus s) {
    const bool is_lost = s == NATS_CONNECTION_CLOSED;
    if (p.is_answer && !is_lost) {
      send({.subject = p.subject,
            .error_code = std::string(steps::errors::InvalidRequest.view()),
            .error_info = s == NATS_MAX_PAYLOAD ? "the answer has too much data" : natsStatus_GetText(s)});
    }
    const bool may_go_later = is_lost || s == NATS_NO_MEMORY;
    fail(p, may_go_later ? steps::errors::ConnectError : steps::errors::InvalidRequest, natsStatus_GetText(s));
  }
  void fail(const parcel& p, ErrorCode code, std::string_view info) noexcept {
    if (p.call != 0) fail_call(calls_->take(p.call), code, info);
  }

  void connect() {
    is_connecting_ = false;  // until there is a thread to do it
    auto made = std::make_shared<opening>();
    async::blocking_pool::shared().post([self = shared_from_this(), made] {
      made->open(self->options_, self->waker_);
      self->opened(made);
    });
    is_connecting_ = true;
  }
  /// By a thread of the blocking pool.
  void opened(std::shared_ptr<opening> made) noexcept {
    {
      const std::lock_guard here(lock_);
      if (is_closed_) return;
      opened_ = std::move(made);
    }
    waker_->wake();
  }
  void look_for_link() {
    std::shared_ptr<opening> made;
    {
      const std::lock_guard here(lock_);
      made = std::move(opened_);
    }
    if (made == nullptr) {
      if (!is_connecting_) connect_later();
      return;
    }
    is_connecting_ = false;
    made->made != nullptr ? take(std::move(made->made)) : retry(std::move(made->failure));
  }
  void take(std::shared_ptr<link> made) {
    {
      const exclusive here(*this);
      link_ = std::move(made);
    }
    pauses_ = steps::detail::pauses(options_.reconnect);
    for (const auto& s : subscriptions_) begin(*s);
    {
      const std::lock_guard here(lock_);
      failure_.clear();
    }
    connected_.set();
  }
  /// The client has no memory, or no thread.
  static bool lacks_resources(natsStatus s) noexcept { return s == NATS_NO_MEMORY || s == NATS_SYS_ERROR; }
  void begin(subscription& s) {
    const natsStatus status = s.begin(link_->get(), waker_, weak_from_this());
    if (status == NATS_OK) return s.connected();
    if (lacks_resources(status)) has_failed_ = true;
    // Anything else may be over with the next connection.
    if (status == NATS_INVALID_ARG || status == NATS_INVALID_SUBJECT || status == NATS_INVALID_QUEUE_NAME) s.remove();
  }
  void lose() {
    connected_.reset();
    natsStatus last = NATS_OK;
    const char* text = nullptr;
    last = natsConnection_GetLastError(link_->get(), &text);
    std::string why = "the connection was lost: ";
    why += text != nullptr && *text != '\0' ? text : natsStatus_GetText(last);
    {
      const exclusive here(*this);
      link_.reset();
    }
    calls_->fail_sent(steps::errors::CommError, why);
    for (const auto& s : subscriptions_) {
      s->end();
      s->lost();
    }
    retry(std::move(why));
  }
  void retry(std::string why) {
    {
      const std::lock_guard here(lock_);
      failure_ = std::move(why);
    }
    connect_later();
  }
  void connect_later() {
    post([this] { connect(); }, pauses_.next(++attempts_));
    is_connecting_ = true;
  }

  static constexpr std::chrono::nanoseconds longest = std::chrono::hours(1);  // poll() takes an int of milliseconds
  static constexpr int most_buffered = 1 << 20;                               // bytes

  options options_;
  std::string inbox_;                        // ends with a dot
  std::atomic<bool> is_left_behind_{false};  // written in a child of fork()
  const std::shared_ptr<call_table> calls_ = std::make_shared<call_table>();
  async::event connected_;
  std::mutex turns_;  // held by the thread that has the turns
  std::mutex io_;     // held to use the link, but for the poll; and to change it, also by the thread that has the turns
  std::mutex lock_;
  std::string failure_ = "not connected yet";  // guarded by the lock
  const std::shared_ptr<waker> waker_ = std::make_shared<waker>();
  std::condition_variable given_back_;  // the turns
  bool is_closing_ = false;
  std::shared_ptr<link> link_;  // null: there is no connection
  std::list<parcel> outgoing_;
  std::size_t done_ = 0;        // parcels handed over, and other work done, of what waits
  std::size_t last_burst_ = 0;  // of parcels that were written together
  std::list<std::shared_ptr<subscription>> subscriptions_;
  bool has_failed_ = false;     // see recover()
  bool is_connecting_ = false;  // a link is to come, or to fail
  steps::detail::pauses pauses_;
  std::uint64_t attempts_ = 0;
  std::thread thread_;

  // Guarded by the lock.
  std::uint64_t uniques_ = 0;
  std::size_t waiting_ = 0;  // parcels and other work, which go before all that is sent later
  bool is_wanted_ = false;   // a thread of the client wants the turns, or has them
  std::uint64_t rivals_ = 0;
  std::shared_ptr<opening> opened_;  // for look_for_link()
  bool is_closed_ = false;           // with the loop's end
  std::unique_ptr<async::event_loop> loop_ =
      std::make_unique<async::event_loop>(async::task([w = waker_] { w->wake(); }));
};

}  // namespace steps::inline v0_1::interop::nats::detail
