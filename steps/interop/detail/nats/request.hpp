// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>      // for uint64_t
#include <memory>       // for shared_ptr
#include <string>       // for string
#include <string_view>  // for string_view
#include <utility>      // for move

#include "steps/errors.hpp"                          // for Error, errors
#include "steps/iasyncsteps.hpp"                     // for IAsyncSteps
#include "steps/interop/detail/abort_scope.hpp"      // for on_abort
#include "steps/interop/detail/nats/bridge.hpp"      // for bridge
#include "steps/interop/detail/nats/call_table.hpp"  // for call_table
#include "steps/interop/detail/nats/message.hpp"     // for parcel

namespace steps::inline v0_1::interop::nats::detail {

/// Bytes of a subject with its group. The server closes the connection of a client that sends a line of more than
/// 4,096.
inline constexpr std::size_t longest_subject = 2'048;

/// The client sends subjects as they are: blanks and line ends would become parts of its protocol.
inline bool is_subject(std::string_view text) noexcept {
  if (text.empty() || text.size() > longest_subject) return false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '\x7F') return false;
  }
  return true;
}

/// A subject, and a group of those that serve it: empty, or as a subject.
inline void check_interest(std::string_view subject, std::string_view group) {
  const bool are_valid = is_subject(subject) && (group.empty() || is_subject(group));
  if (are_valid && subject.size() + group.size() <= longest_subject) return;
  throw Error(steps::errors::InvalidRequest,
              "a NATS subject is not empty, it and its group have no blanks, and both together at most 2,048 bytes");
}

/// Names that become parts of subjects.
inline void check_names(std::string_view stream, std::string_view consumer) {
  const bool are_valid = is_subject(stream) && is_subject(consumer);
  if (are_valid && stream.size() + consumer.size() <= longest_subject) return;
  throw Error(
      steps::errors::InvalidRequest,
      "the names of a stream and a consumer are not empty and have no blanks, and at most 2,048 bytes together");
}

/// Makes a step, whose function runs, wait for the answer to a parcel: a std::string.
inline void request(IAsyncSteps& asi, const std::shared_ptr<bridge>& to, parcel p) {
  if (!is_subject(p.subject)) {
    asi.error(steps::errors::InvalidRequest, "a NATS subject is not empty, and has no blanks and at most 2,048 bytes");
  }
  const call_table::begun made = to->begin_call(asi.completion<std::string>());
  const std::uint64_t number = made.number;
  if (number == 0) asi.error(steps::errors::Stopped, "the bus has ended");
  try {
    steps::detail::on_abort(asi, [to, number] { to->take_call(number); });
    p.call = number;
    to->send(std::move(p), made.in_flight <= bridge::few);
  } catch (...) {
    to->take_call(number);
    throw;
  }
}

}  // namespace steps::inline v0_1::interop::nats::detail
