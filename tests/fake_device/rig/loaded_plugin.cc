#include "tests/fake_device/rig/loaded_plugin.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>

#include "tests/support/folders.h"

namespace tenon {
namespace {

// The plugin's own library name: the interface without its revision, then the id.
std::string library_path(std::string_view interface, std::string_view id) {
  return build_folder() + "/plugins/libtenon-" + std::string(interface) + "_" + std::string(id) +
         ".so";
}

OptionValue parse_value(const OptionSpec& spec, std::string_view text) {
  OptionValue value;
  value.text = text;
  value.automatic = text == "auto";
  value.boolean = text == "true";
  std::from_chars(text.data(), text.data() + text.size(), value.integer);
  for (uint32_t i = 0; i < spec.choice_count; ++i) {
    if (text == spec.choices[i]) value.integer = i;
  }
  if (spec.type == OptionType::real) value.real = std::strtod(std::string(text).c_str(), nullptr);
  return value;
}

}  // namespace

PluginHandle::PluginHandle(std::string_view interface, std::string_view id,
                           std::string_view options, ModelRunner* runner)
    : runner_(runner), text_(options) {
  services_.context = this;
  services_.facts = &facts_;
  services_.count = [](void* self, std::string_view name, uint64_t amount) noexcept {
    static_cast<PluginHandle*>(self)->counters_[std::string(name)] += amount;
  };
  services_.allocate = [](void*, Space space, uint64_t bytes, uint64_t alignment) noexcept {
    const uint64_t whole = (bytes + alignment - 1) / alignment * alignment;
    return space == Space() ? std::aligned_alloc(alignment, whole) : nullptr;
  };
  services_.free = [](void*, Space, void* memory) noexcept { std::free(memory); };
  services_.extension = [](void* self, std::string_view extension) noexcept -> const void* {
    const auto* handle = static_cast<const PluginHandle*>(self);
    const bool known = extension == kModelRunner && handle->runner_ != nullptr;
    return known ? &handle->runner_ : nullptr;
  };
  if (!open(interface, id) || !fill(text_)) return;
  Status status;
  if (descriptor_->validate != nullptr) status = descriptor_->validate(options_);
  if (status.ok()) status = descriptor_->create(services_, pipeline_, options_, &instance_);
  error_ = status.message();
}

PluginHandle::~PluginHandle() {
  if (instance_ != nullptr) descriptor_->destroy(instance_);
}

bool PluginHandle::open(std::string_view interface, std::string_view id) {
  const std::string path = library_path(interface, id);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const void* table = library == nullptr ? nullptr : dlsym(library, kPluginLibrarySymbol);
  if (table == nullptr) {
    error_ = dlerror();
    return false;
  }
  const auto& exported = *static_cast<const PluginLibrary*>(table);
  for (uint32_t i = 0; i < exported.descriptor_count; ++i) {
    if (exported.descriptors[i]->id == id) descriptor_ = exported.descriptors[i];
  }
  if (descriptor_ == nullptr) error_ = path + " has no plugin '" + std::string(id) + "'";
  return descriptor_ != nullptr;
}

bool PluginHandle::fill(std::string_view options) {
  memory_.resize(descriptor_->options_bytes + descriptor_->options_alignment);
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  const uintptr_t alignment = descriptor_->options_alignment;
  options_ = reinterpret_cast<void*>((address + alignment - 1) / alignment * alignment);
  descriptor_->construct_options(options_);
  while (!options.empty()) {
    const size_t equals = options.find('=');
    const std::string_view key = options.substr(0, equals);
    const OptionSpec* spec = nullptr;
    for (uint32_t i = 0; i < descriptor_->option_count; ++i) {
      if (descriptor_->options[i].key == key) spec = &descriptor_->options[i];
    }
    if (spec == nullptr || equals == std::string_view::npos) {
      error_ = "no option '" + std::string(key) + "'";
      return false;
    }
    options.remove_prefix(equals + 1);
    const bool to_the_end = spec->type == OptionType::text;
    const size_t end = to_the_end ? options.size() : std::min(options.find(' '), options.size());
    spec->store(options_, parse_value(*spec, options.substr(0, end)));
    options.remove_prefix(std::min(end + 1, options.size()));
  }
  return true;
}

}  // namespace tenon
