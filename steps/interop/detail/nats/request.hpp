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

/// The client sends subjects as they are: blanks and line ends would become parts of its protocol.
inline bool is_subject(std::string_view text) noexcept {
  if (text.empty()) return false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '\x7F') return false;
  }
  return true;
}

/// A subject, and a group of those that serve it: empty, or as a subject.
inline void check_interest(std::string_view subject, std::string_view group) {
  if (is_subject(subject) && (group.empty() || is_subject(group))) return;
  throw Error(steps::errors::InvalidRequest, "a NATS subject is not empty, and it and its group have no blanks");
}

/// Names that become parts of subjects.
inline void check_names(std::string_view stream, std::string_view consumer) {
  if (is_subject(stream) && is_subject(consumer)) return;
  throw Error(steps::errors::InvalidRequest, "the names of a stream and a consumer are not empty and have no blanks");
}

/// Makes a step, whose function runs, wait for the answer to a parcel: a std::string.
inline void request(IAsyncSteps& asi, const std::shared_ptr<bridge>& to, parcel p) {
  if (!is_subject(p.subject)) asi.error(steps::errors::InvalidRequest, "a NATS subject is not empty and has no blanks");
  const call_table::begun made = to->calls().begin(asi.completion<std::string>());
  const std::uint64_t number = made.number;
  if (number == 0) asi.error(steps::errors::Stopped, "the bus has ended");
  try {
    steps::detail::on_abort(asi, [to, number] { to->calls().take(number); });
    p.call = number;
    to->send(std::move(p), made.in_flight <= bridge::few);
  } catch (...) {
    to->calls().take(number);
    throw;
  }
}

}  // namespace steps::inline v0_1::interop::nats::detail
