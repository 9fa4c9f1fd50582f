// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <nats/nats.h>

#include <algorithm>    // for all_of, max, min
#include <cstddef>      // for size_t
#include <cstdint>      // for int64_t
#include <cstdlib>      // for atoi
#include <memory>       // for unique_ptr
#include <string>       // for string
#include <string_view>  // for string_view

#include "steps/errors.hpp"  // for errors

namespace steps::inline v0_1::interop::nats::detail {

/// A message of the client that has arrived.
class message {
 public:
  explicit message(natsMsg* m) noexcept : message_(m) {}

  const char* subject() const noexcept { return natsMsg_GetSubject(message_.get()); }
  /// The subject for an answer; empty: none is wanted.
  std::string reply() const { return text_of(natsMsg_GetReply(message_.get())); }
  std::string data() const {
    return {natsMsg_GetData(message_.get()), static_cast<std::size_t>(natsMsg_GetDataLength(message_.get()))};
  }
  bool has_data() const noexcept { return natsMsg_GetDataLength(message_.get()) != 0; }
  /// The first value of a header; empty when there is none.
  std::string header(const char* key) const {
    const char* value = nullptr;
    return natsMsgHeader_Get(message_.get(), key, &value) == NATS_OK ? text_of(value) : std::string();
  }
  /// The status by which the server itself speaks, such as 503; 0: this is a message of somebody else.
  int status() const { return has_data() ? 0 : std::atoi(header("Status").c_str()); }

  /// For calls of the client.
  natsMsg* get() const noexcept { return message_.get(); }

 private:
  struct destroy {
    void operator()(natsMsg* m) const noexcept { natsMsg_Destroy(m); }
  };
  static std::string text_of(const char* text) { return text == nullptr ? std::string() : std::string(text); }

  std::unique_ptr<natsMsg, destroy> message_;
};

/// A message to be sent.
struct parcel {
  std::string subject;
  std::string data{};
  std::string reply{};       // empty: none, or the inbox of `call`
  std::string id{};          // for the server's deduplication
  std::string error_code{};  // of an answer that is an error
  std::string error_info{};
  unsigned long long call = 0;  // the wait that the answer ends
  bool is_answer = false;       // somebody waits for it, and learns when it cannot be sent
};

/// The headers of errors are those of NATS services in other languages.
inline constexpr const char* error_code_header = "Nats-Service-Error-Code";
inline constexpr const char* error_info_header = "Nats-Service-Error";

/// Without anything that is seen: a header of it is lost, or the client reads the next one as its value.
inline bool is_blank(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) <= ' '; });
}
/// As the value of a header it stays as it is.
inline bool is_id(std::string_view text) noexcept {
  const auto is_printed = [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\x7F'; };
  return !is_blank(text) && text.front() != ' ' && text.back() != ' ' &&
         std::all_of(text.begin(), text.end(), is_printed);
}
/// A text as the code of an error, which tells an error from an answer.
inline std::string error_code_of(std::string_view text) {
  return std::string(is_blank(text) ? steps::errors::InternalError.view() : text);
}

/// A text as the value of a header, which is a line: its first bytes, up to the end of a character of UTF-8.
inline std::string line_of(std::string_view whole, std::size_t most = std::string::npos) {
  if (whole.size() > most) {
    while (most != 0 && (static_cast<unsigned char>(whole[most]) & 0xC0) == 0x80) --most;
    whole = whole.substr(0, most);
  }
  std::string text(whole);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

/// The length of data as the client takes it, which counts the headers in the same int. No server takes as much.
inline bool is_size(std::size_t bytes) noexcept { return bytes <= std::size_t{1} << 30; }

/// Bytes of an error's code and info. Longer ones are cut, so that the error arrives.
inline constexpr std::size_t most_code = 1'024;
inline constexpr std::size_t most_info = 16'384;
/// The bytes that a message has left for the info of an error, and the server takes.
inline std::size_t room_for_info(natsConnection* to, const parcel& p) {
  const std::size_t others = p.data.size() + p.id.size() + (std::min)(p.error_code.size(), most_code) + 128;
  const auto most = static_cast<std::size_t>((std::max)(natsConnection_GetMaxPayload(to), std::int64_t{0}));
  return (std::min)(most - (std::min)(most, others), most_info);
}

/// Hands a parcel to the client, which writes it into its buffer.
inline natsStatus publish(natsConnection* to, const parcel& p, const char* reply) {
  if (!is_size(p.data.size())) return NATS_MAX_PAYLOAD;
  const int size = static_cast<int>(p.data.size());
  if (p.id.empty() && p.error_code.empty()) {
    if (*reply == '\0') return natsConnection_Publish(to, p.subject.c_str(), p.data.data(), size);
    return natsConnection_PublishRequest(to, p.subject.c_str(), reply, p.data.data(), size);
  }
  natsMsg* made = nullptr;
  natsStatus s = natsMsg_Create(&made, p.subject.c_str(), *reply == '\0' ? nullptr : reply, p.data.data(), size);
  if (s != NATS_OK) return s;
  const message whole(made);
  if (!p.id.empty()) s = natsMsgHeader_Set(made, "Nats-Msg-Id", line_of(p.id).c_str());
  if (s == NATS_OK && !p.error_code.empty()) {
    s = natsMsgHeader_Set(made, error_code_header, error_code_of(line_of(p.error_code, most_code)).c_str());
    const std::string info = line_of(p.error_info, room_for_info(to, p));
    if (s == NATS_OK && !is_blank(info)) s = natsMsgHeader_Set(made, error_info_header, info.c_str());
  }
  return s == NATS_OK ? natsConnection_PublishMsg(to, made) : s;
}

}  // namespace steps::inline v0_1::interop::nats::detail
