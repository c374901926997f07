#include "core/isolation/description.h"

#include <tenon/model.h>

#include "core/plugin/descriptor_check.h"
#include "core/plugin/stamp.h"

namespace tenon {
namespace {

constexpr uint32_t kMostDescribed = 4096;  // options of a plugin, choices of an option, facts

void write_option(const OptionSpec& spec, WireWriter& out) {
  out.put_text(spec.key);
  out.put(spec.type);
  out.put(spec.accepts_auto);
  out.put(spec.required);
  out.put(spec.default_value.boolean);
  out.put(spec.default_value.automatic);
  out.put(spec.default_value.integer);
  out.put(spec.default_value.real);
  out.put_text(spec.default_value.text);
  out.put(spec.min);
  out.put(spec.max);
  out.put(spec.min_real);
  out.put(spec.max_real);
  out.put(spec.choice_count);
  for (uint32_t i = 0; i < spec.choice_count; ++i) out.put_text(spec.choices[i]);
  out.put_text(spec.unit);
  out.put_text(spec.sentence);
}

void write_fact_list(const Fact* facts, uint32_t count, WireWriter& out) {
  out.put(count);
  for (uint32_t i = 0; i < count; ++i) {
    out.put_text(facts[i].key);
    out.put(facts[i].op);
    out.put(facts[i].number);
    out.put_text(facts[i].words);
  }
}

// Functions that nobody calls: those of the process are.
void no_construct(void*) noexcept {}
void no_store(void*, const OptionValue&) noexcept {}
Status no_create(const HostServices&, const PipelineFacts&, const void*, void**) noexcept {
  return Status::error(StatusCode::internal, "it is not loaded here");
}

}  // namespace

void write_descriptors(const LoadedLibrary& library, WireWriter& out) {
  out.put(static_cast<uint32_t>(library.descriptors.size()));
  for (const PluginDescriptor& descriptor : library.descriptors) {
    for (const std::string_view text :
         {descriptor.interface, descriptor.id, descriptor.version, descriptor.summary,
          descriptor.license, descriptor.unavailable}) {
      out.put_text(text);
    }
    out.put(descriptor.option_count);
    for (uint32_t i = 0; i < descriptor.option_count; ++i) {
      write_option(descriptor.options[i], out);
    }
    write_fact_list(descriptor.provides, descriptor.provide_count, out);
    write_fact_list(descriptor.requirements, descriptor.requirement_count, out);
  }
}

std::string_view DescribedLibrary::keep(std::string_view text) {
  return texts_.emplace_back(text);
}

OptionSpec DescribedLibrary::read_option(WireReader& in) {
  OptionSpec spec;
  spec.key = keep(in.get_text());
  spec.type = in.get<OptionType>();
  spec.accepts_auto = in.get<bool>();
  spec.required = in.get<bool>();
  spec.default_value.boolean = in.get<bool>();
  spec.default_value.automatic = in.get<bool>();
  spec.default_value.integer = in.get<int64_t>();
  spec.default_value.real = in.get<double>();
  spec.default_value.text = keep(in.get_text());
  spec.min = in.get<int64_t>();
  spec.max = in.get<int64_t>();
  spec.min_real = in.get<double>();
  spec.max_real = in.get<double>();
  std::vector<std::string_view>& choices = choices_.emplace_back();
  const auto count = in.get<uint32_t>();
  for (uint32_t i = 0; i < count && i < kMostDescribed && in.ok(); ++i) {
    choices.push_back(keep(in.get_text()));
  }
  spec.choices = choices.data();
  spec.choice_count = static_cast<uint32_t>(choices.size());
  spec.unit = keep(in.get_text());
  spec.sentence = keep(in.get_text());
  spec.store = no_store;
  return spec;
}

const Fact* DescribedLibrary::read_facts(WireReader& in, uint32_t& count) {
  std::vector<Fact>& facts = facts_.emplace_back();
  count = std::min(in.get<uint32_t>(), kMostDescribed);
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    Fact& fact = facts.emplace_back();
    fact.key = keep(in.get_text());
    fact.op = in.get<FactOp>();
    fact.number = in.get<int64_t>();
    fact.words = keep(in.get_text());
  }
  count = static_cast<uint32_t>(facts.size());
  return facts.data();
}

void DescribedLibrary::read_descriptor(WireReader& in) {
  PluginDescriptor descriptor;
  for (std::string_view* text :
       {&descriptor.interface, &descriptor.id, &descriptor.version, &descriptor.summary,
        &descriptor.license, &descriptor.unavailable}) {
    *text = keep(in.get_text());
  }
  std::vector<OptionSpec>& options = options_.emplace_back();
  const auto count = in.get<uint32_t>();
  for (uint32_t i = 0; i < count && i < kMostDescribed && in.ok(); ++i) {
    options.push_back(read_option(in));
  }
  descriptor.options = options.data();
  descriptor.option_count = static_cast<uint32_t>(options.size());
  descriptor.options_bytes = 1;
  descriptor.construct_options = no_construct;
  descriptor.provides = read_facts(in, descriptor.provide_count);
  descriptor.requirements = read_facts(in, descriptor.requirement_count);
  descriptor.create = no_create;
  descriptor.destroy = no_construct;
  library.descriptors.push_back(descriptor);
}

Result<std::unique_ptr<DescribedLibrary>> DescribedLibrary::read(WireReader& in,
                                                                 const std::string& path) {
  auto made = std::make_unique<DescribedLibrary>();
  made->library.path = path;
  const auto count = in.get<uint32_t>();
  for (uint32_t i = 0; i < count && i < kMostPlugins && in.ok(); ++i) {
    made->read_descriptor(in);
    const PluginDescriptor& descriptor = made->library.descriptors.back();
    if (!in.ok() || !knows_interface(descriptor.interface)) {
      return failed(path + ": its process described it in a way that cannot be read");
    }
    if (Status status = check_descriptor(descriptor); !status.ok()) {
      return with_context(path, status);
    }
  }
  return made;
}

void write_settings(std::span<const Setting> settings, WireWriter& out) {
  out.put(static_cast<uint32_t>(settings.size()));
  for (const Setting& setting : settings) {
    out.put_text(setting.key);
    out.put_text(setting.origin.file);
    out.put(setting.origin.line);
    out.put(setting.origin.column);
    out.put(static_cast<uint32_t>(setting.value.index()));
    if (const auto* boolean = std::get_if<bool>(&setting.value)) out.put(*boolean);
    if (const auto* integer = std::get_if<int64_t>(&setting.value)) out.put(*integer);
    if (const auto* real = std::get_if<double>(&setting.value)) out.put(*real);
    if (const auto* text = std::get_if<std::string>(&setting.value)) out.put_text(*text);
    if (const auto* list = std::get_if<std::vector<std::string>>(&setting.value)) {
      out.put(static_cast<uint32_t>(list->size()));
      for (const std::string& text : *list) out.put_text(text);
    }
  }
}

std::vector<Setting> read_settings(WireReader& in) {
  std::vector<Setting> settings;
  const auto count = in.get<uint32_t>();
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    Setting& setting = settings.emplace_back();
    setting.key = in.get_text();
    setting.origin.file = in.get_text();
    setting.origin.line = in.get<decltype(setting.origin.line)>();
    setting.origin.column = in.get<decltype(setting.origin.column)>();
    switch (in.get<uint32_t>()) {
      case 0:
        setting.value = in.get<bool>();
        break;
      case 1:
        setting.value = in.get<int64_t>();
        break;
      case 2:
        setting.value = in.get<double>();
        break;
      case 3:
        setting.value = std::string(in.get_text());
        break;
      default: {
        std::vector<std::string> list(in.get<uint32_t>());
        for (std::string& text : list) text = in.get_text();
        setting.value = std::move(list);
      }
    }
  }
  return settings;
}

void write_facts(const PipelineFacts& facts, WireWriter& out) {
  out.put(facts.count);
  for (uint32_t i = 0; i < facts.count; ++i) {
    out.put_text(facts.facts[i].key);
    out.put_text(facts.facts[i].word);
    out.put(facts.facts[i].number);
  }
}

ReadFacts read_facts(WireReader& in) {
  ReadFacts read;
  const auto count = in.get<uint32_t>();
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    ResolvedFact& fact = read.facts.emplace_back();
    fact.key = read.texts.emplace_back(in.get_text());
    fact.word = read.texts.emplace_back(in.get_text());
    fact.number = in.get<int64_t>();
  }
  return read;
}

// Pointers of layers are written as lists after them.
void write_model_shape(const ModelShape& shape, WireWriter& out) {
  out.put(shape);
  out.put_list(std::span(shape.groups, shape.group_count));
  const std::span layers(shape.layers, shape.layers == nullptr ? 0 : shape.layer_count);
  out.put(uint64_t{layers.size()});
  for (const LayerShape& layer : layers) {
    out.put(layer);
    const size_t heads = layer.query_heads;
    out.put_list(std::span(layer.sinks, layer.sinks == nullptr ? 0 : heads));
    out.put_list(std::span(layer.alibi_slopes, layer.alibi_slopes == nullptr ? 0 : heads));
    out.put_text(layer.state_kind);
  }
}

ModelShape read_model_shape(WireReader& in, std::vector<LayerShape>& layers) {
  auto shape = in.get<ModelShape>();
  const std::span<const KvGroup> groups = in.get_list<KvGroup>();
  shape.groups = groups.data();
  layers.clear();
  const auto count = in.get<uint64_t>();
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    LayerShape& layer = layers.emplace_back(in.get<LayerShape>());
    const std::span<const float> sinks = in.get_list<float>();
    const std::span<const float> slopes = in.get_list<float>();
    layer.sinks = sinks.empty() ? nullptr : sinks.data();
    layer.alibi_slopes = slopes.empty() ? nullptr : slopes.data();
    layer.state_kind = in.get_text();
  }
  shape.layers = layers.empty() ? nullptr : layers.data();
  return shape;
}

}  // namespace tenon
