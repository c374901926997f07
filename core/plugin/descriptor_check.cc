#include "core/plugin/descriptor_check.h"

#include <tenon/extensions/kv_store.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/plugin/facts/fact_keys.h"
#include "core/plugin/stamp.h"

namespace tenon {
namespace {

constexpr uint32_t kMostOptions = 256;
constexpr uint32_t kMostFacts = 64;
constexpr uint32_t kMostOptionBytes = 1 << 20;
constexpr uint32_t kLargestAlignment = 4096;

constexpr std::string_view kInterfaces[] = {
    kSchedulerInterface, kKvCacheInterface, kAttentionInterface, kLinearInterface,
    kSamplerInterface,   kDrafterInterface, kStateInterface,     kKvStoreInterface};

// Where the first descriptor and the first table ended.
constexpr size_t kFirstDescriptorBytes = offsetof(PluginDescriptor, extension);
constexpr size_t kFirstTableBytes = sizeof(PluginLibrary);

// `theirs` begins with the members that `own` begins with; `size` is how long it is.
template <typename T>
T copy_common(const T& theirs) {
  static_assert(std::is_trivially_copyable_v<T>);
  T own;
  std::memcpy(static_cast<void*>(&own), &theirs, std::min<size_t>(theirs.size, sizeof(T)));
  own.size = sizeof(T);
  return own;
}

bool valid_key(std::string_view key) {
  return valid_plugin_id(key) && key.find('.') == key.npos;
}

bool valid_default(const OptionSpec& spec) {
  if (spec.default_value.automatic) return spec.accepts_auto;
  const int64_t number = spec.default_value.integer;
  switch (spec.type) {
    case OptionType::integer:
    case OptionType::bytes:
    case OptionType::duration:
      return spec.min <= number && number <= spec.max;
    case OptionType::real:
      return spec.min_real <= spec.default_value.real && spec.default_value.real <= spec.max_real;
    case OptionType::choice:
      return spec.choices != nullptr && number >= 0 && number < spec.choice_count;
    default:
      return spec.type <= OptionType::path;
  }
}

void check_option(const OptionSpec& spec, std::vector<std::string>& faults) {
  const std::string name = "option " + in_quotes(spec.key) + " ";
  if (!valid_key(spec.key)) faults.push_back(name + "has a bad key");
  if (spec.store == nullptr) faults.push_back(name + "has no store function");
  if (spec.sentence.empty()) faults.push_back(name + "has no sentence");
  if (!valid_default(spec)) faults.push_back(name + "has a default outside of its own range");
}

void check_options(const PluginDescriptor& descriptor, std::vector<std::string>& faults) {
  if (descriptor.option_count > kMostOptions ||
      (descriptor.option_count > 0 && descriptor.options == nullptr) ||
      descriptor.options_bytes > kMostOptionBytes ||
      descriptor.options_alignment > kLargestAlignment ||
      !std::has_single_bit(descriptor.options_alignment) ||
      (descriptor.options_bytes > 0 && descriptor.construct_options == nullptr)) {
    faults.push_back("the option table or the option struct is not sane");
    return;
  }
  const std::span specs(descriptor.options, descriptor.option_count);
  for (const OptionSpec& spec : specs) {
    check_option(spec, faults);
    const auto same = [&](const OptionSpec& other) { return other.key == spec.key; };
    if (std::find_if(specs.begin(), specs.end(), same)->store != spec.store) {
      faults.push_back("option " + in_quotes(spec.key) + " is declared twice");
    }
  }
}

void check_facts(const Fact* facts, uint32_t count, const char* what,
                 std::vector<std::string>& faults) {
  if (count > kMostFacts || (count > 0 && facts == nullptr)) {
    faults.push_back(std::string("the table of facts it ") + what + " is not sane");
    return;
  }
  for (const Fact& fact : std::span(facts, count)) {
    if (std::string fault = fact_key_fault(fact.key); !fault.empty()) {
      faults.push_back(std::move(fault));
      continue;
    }
    const bool has_words = !trim(fact.words).empty();
    const bool sane = fact.op <= FactOp::all_of && (fact.op != FactOp::in || has_words) &&
                      (fact.op != FactOp::all_of || has_words || fact.number >= 1) &&
                      (fact.op != FactOp::multiple_of || fact.number >= 1);
    if (!sane) {
      faults.push_back("the fact " + in_quotes(fact.key) + " it " + what +
                       " says nothing that can hold");
    }
  }
}

}  // namespace

std::span<const std::string_view> known_interfaces() {
  return kInterfaces;
}

bool knows_interface(std::string_view interface) {
  return std::find(std::begin(kInterfaces), std::end(kInterfaces), interface) !=
         std::end(kInterfaces);
}

std::string unknown_interface(std::string_view interface) {
  std::vector<std::string> known;
  for (std::string_view one : kInterfaces) {
    if (interface_word(one) == interface_word(interface)) known = {std::string(one)};
  }
  if (known.empty()) known.assign(std::begin(kInterfaces), std::end(kInterfaces));
  return "interface \"" + std::string(interface.substr(0, 80)) +
         "\" is not known to this host (it knows " + join(known) + ")";
}

Result<PluginDescriptor> own_descriptor(const PluginDescriptor& theirs) {
  if (theirs.size < kFirstDescriptorBytes) {
    return invalid_argument("a descriptor has " + std::to_string(theirs.size) +
                            " bytes; expected at least " + std::to_string(kFirstDescriptorBytes) +
                            ": its size member was not left as it is, or the file is damaged");
  }
  return copy_common(theirs);
}

Result<PluginLibrary> own_table(const PluginLibrary& theirs) {
  if (theirs.magic != kPluginLibraryMagic || theirs.size < kFirstTableBytes) {
    return invalid_argument("its plugin table is damaged; rebuild it with TENON_PLUGIN_LIBRARY");
  }
  const PluginLibrary own = copy_common(theirs);
  if (own.descriptor_count == 0 || own.descriptor_count > kMostPlugins ||
      own.descriptors == nullptr) {
    return invalid_argument("its plugin table is damaged; rebuild it with TENON_PLUGIN_LIBRARY");
  }
  return own;
}

Status check_descriptor(const PluginDescriptor& descriptor) {
  std::vector<std::string> faults;
  if (!valid_plugin_id(descriptor.id)) {
    faults.push_back("the id " + in_quotes(descriptor.id) +
                     " is not a lower-case word, or two with a point between them");
  }
  if (descriptor.summary.empty()) faults.push_back("it has no summary");
  if (descriptor.create == nullptr) faults.push_back("it has no create function");
  if (descriptor.destroy == nullptr) faults.push_back("it has no destroy function");
  check_options(descriptor, faults);
  check_facts(descriptor.provides, descriptor.provide_count, "provides", faults);
  check_facts(descriptor.requirements, descriptor.requirement_count, "requires", faults);
  if (faults.empty()) return {};
  return invalid_argument(
      "plugin " + in_quotes(std::string(descriptor.interface) + ":" + std::string(descriptor.id)) +
      ": " + join(faults, "; "));
}

}  // namespace tenon
