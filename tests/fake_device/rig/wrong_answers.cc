#include "tests/fake_device/rig/wrong_answers.h"

#include <string>

namespace tenon {

uint32_t WrongAnswers::below(uint32_t bound) {
  state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<uint32_t>((state_ >> 33) % bound);
}

uint32_t WrongAnswers::instead_of(uint32_t value) {
  const uint32_t others[] = {0,          1,          value + 1,  value - 1,      value * 2,
                             value + 16, 0x7fffffff, 0xffffffff, below(1 << 30), below(64)};
  return others[below(10)];
}

uint64_t WrongAnswers::instead_of(uint64_t value) {
  const uint64_t others[] = {0,         1,          value + 1,      value - 1,
                             value * 2, UINT64_MAX, UINT64_MAX / 2, below(1 << 30)};
  return others[below(8)];
}

Status WrongAnswers::answer(Status status) {
  if (!status.ok() || !now()) return status;
  static const StatusRecord kStrange[] = {
      {StatusCode::ok, 3, "odd", [](const StatusRecord*) noexcept {}},
      {static_cast<StatusCode>(77), 4, "\x1b[2J", [](const StatusRecord*) noexcept {}},
      {StatusCode::failed, 5, nullptr, [](const StatusRecord*) noexcept {}}};
  switch (below(4)) {
    case 0:
      return Status(&kStrange[below(3)]);
    case 1:
      return Status::error(StatusCode::internal, std::string(1 << 16, 'x'));
    case 2:
      return Status::error(StatusCode::out_of_kv, "not now");
    default:
      return Status::error(StatusCode::failed, "no, thank you");
  }
}

}  // namespace tenon
