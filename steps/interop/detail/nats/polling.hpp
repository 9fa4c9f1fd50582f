// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint64_t

namespace steps::inline v0_1::interop::nats::detail {

/// The turns at a connection's socket: in each one a thread polls it, reads, and writes. One thread has them at a time:
/// the bridge's, or a thread of the client that hands over messages. The latter saves a change of threads for each of
/// its messages, but must not block meanwhile.
class polling {
 public:
  /// The calling thread takes the turns over, once the bridge's thread has ended one. False: another one has them.
  virtual bool begin_turns() = 0;
  /// Has one turn. False: give them back.
  virtual bool have_turn() = 0;
  /// Gives the turns back to the bridge's thread.
  virtual void end_turns() noexcept = 0;
  /// Counts calls of begin_turns() in vain. By the thread that has the turns.
  virtual std::uint64_t rivals() = 0;

 protected:
  polling() = default;
  polling(const polling&) = default;
  polling& operator=(const polling&) = default;
  ~polling() = default;
};

}  // namespace steps::inline v0_1::interop::nats::detail
