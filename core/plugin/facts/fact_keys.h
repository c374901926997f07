// The vocabulary of facts, for the check of what plugins say; its meaning is in <tenon/facts.h>.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tenon {

std::span<const std::string_view> fact_keys();

// Empty when `key` is in the vocabulary or a third party's ("acme.key"); else what is wrong.
std::string fact_key_fault(std::string_view key);

}  // namespace tenon
