// tenon._tenon: libtenon for the package's own Python, which gives it the ecosystem's words.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "sdk/python/src/failure.h"
#include "sdk/python/src/pipeline.h"

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT: they are written so

namespace tenon::python {
namespace {

// Texts of models need not be UTF-8: a token can be a part of a character.
nb::object shown(const char* text, size_t bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(bytes), "replace"));
}

// Of numbers that belong to `owner`, without a copy.
template <typename T>
nb::object array(const T* numbers, size_t count, nb::handle owner) {
  return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(numbers, {count}, owner).cast();
}
template <typename T>
nb::object table(const T* numbers, size_t rows, size_t columns, nb::handle owner) {
  return nb::ndarray<nb::numpy, const T, nb::ndim<2>>(numbers, {rows, columns}, owner).cast();
}

// Python's lock is free while it lives.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() {
    stay_if_leaving();
    PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_;
};

// With Python's lock let go; signals are looked after meanwhile.
void wait_for_news(Call& call, bool for_the_end) {
  Inbox& inbox = call.inbox();
  for (;;) {
    bool ended = false;
    {
      const Unlocked unlocked;
      inbox.wait_a_little(for_the_end);
      ended = inbox.ended();
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (ended || (!for_the_end && inbox.has_news())) return;
  }
}

// Pieces as (sample, text, tokens), and whether the call has ended.
nb::tuple taken(Call& call) {
  // In this order: what comes before the end is among the pieces.
  const bool ended = call.inbox().ended();
  nb::list pieces;
  for (const Piece& piece : call.inbox().take()) {
    pieces.append(nb::make_tuple(piece.sample, shown(piece.text.data(), piece.text.size()),
                                 nb::cast(piece.tokens)));
  }
  return nb::make_tuple(pieces, ended);
}

nb::dict answer_of(nb::handle self, size_t index) {
  const tenon_llm_answer answer = nb::cast<Call&>(self).answer(index);
  nb::dict shown_answer;
  shown_answer["text"] = shown(answer.text, answer.text_bytes);
  shown_answer["tokens"] = array(answer.tokens, answer.token_count, self);
  shown_answer["finish"] = answer.finish;
  shown_answer["stop"] = answer.stop == nullptr
                             ? nb::none()
                             : shown(answer.stop, std::char_traits<char>::length(answer.stop));
  shown_answer["prompt_tokens"] = answer.prompt_tokens;
  shown_answer["reused_tokens"] = answer.reused_tokens;
  shown_answer["digest"] = answer.digest;
  return shown_answer;
}

// (logprobs [n], ranks [n], tokens [n, width], candidates [n, width]); of the prompt for None.
nb::tuple alternatives_of(nb::handle self, std::optional<size_t> index) {
  const tenon_llm_alternatives found =
      nb::cast<Call&>(self).alternatives(index.value_or(TENON_LLM_PROMPT));
  return nb::make_tuple(array(found.logprobs, found.positions, self),
                        array(found.ranks, found.positions, self),
                        table(found.tokens, found.positions, found.width, self),
                        table(found.candidates, found.positions, found.width, self));
}

nb::object values_of(nb::handle self) {
  const auto [values, count] = nb::cast<Call&>(self).values();
  return array(values, count, self);
}

nb::dict facts_of(const Engine& engine) {
  const tenon_llm_facts facts = engine.facts();
  nb::dict all;
  all["context_tokens"] = facts.context_tokens;
  all["vocabulary"] = facts.vocabulary;
  all["embedding_values"] = facts.embedding_values;
  all["model"] = facts.model;
  all["numerics"] = facts.numerics;
  all["pipeline_hash"] = facts.pipeline_hash;
  return all;
}

// tenon.errors has a class for each code.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Failure& failure) {
    const nb::object type = nb::module_::import_("tenon.errors").attr("of_code")(failure.code());
    PyErr_SetObject(type.ptr(), nb::str(failure.what()).ptr());
  }
}

nb::object decoded(const Engine& engine, const std::vector<int64_t>& tokens, bool special) {
  std::string text;
  {
    const Unlocked unlocked;
    text = engine.decode(tokens, special);
  }
  return shown(text.data(), text.size());
}

}  // namespace
}  // namespace tenon::python

NB_MODULE(_tenon, module) {       // NOLINT: the macro's own form
  using namespace tenon::python;  // NOLINT
  using WhileUnlocked = nb::call_guard<Unlocked>;
  // Threads that are daemons keep what they held where the interpreter ends, which is no fault.
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate);

  nb::class_<Opening>(module, "Opening")
      .def(nb::init<>())
      .def_rw("config", &Opening::config, nb::arg().none())
      .def_rw("config_text", &Opening::config_text, nb::arg().none())
      .def_rw("model", &Opening::model, nb::arg().none())
      .def_rw("overrides", &Opening::overrides)
      .def_rw("plugin_path", &Opening::plugin_path)
      .def_rw("threads", &Opening::threads)
      .def_rw("max_calls", &Opening::max_calls)
      .def_rw("digests", &Opening::digests);
  nb::class_<Asked>(module, "Asked")
      .def(nb::init<>())
      .def_rw("text", &Asked::text, nb::arg().none())
      .def_rw("tokens", &Asked::tokens, nb::arg().none())
      .def_rw("conversation", &Asked::conversation, nb::arg().none())
      .def_rw("tools", &Asked::tools, nb::arg().none())
      .def_rw("template_data", &Asked::template_data, nb::arg().none())
      .def_rw("chat", &Asked::chat)
      .def_rw("settings", &Asked::settings)
      .def_rw("want", &Asked::want)
      .def_rw("streams", &Asked::streams);
  nb::class_<Bell>(module, "Bell")
      .def(nb::init<>())
      .def("fileno", &Bell::descriptor)
      .def("take", &Bell::take);
  nb::class_<Engine>(module, "Engine")
      .def(nb::init<const Opening&>(), WhileUnlocked())
      .def("close", &Engine::close, WhileUnlocked())
      .def("address",
           [](const Engine& engine) { return reinterpret_cast<uintptr_t>(engine.handle()); })
      .def("facts", facts_of)
      .def("encode", &Engine::encode, WhileUnlocked())
      .def("decode", decoded);
  nb::class_<Call>(module, "Call")
      .def(nb::init<const Engine&, const Asked&, std::shared_ptr<Bell>, uint64_t>(), "engine"_a,
           "asked"_a, "bell"_a.none() = nb::none(), "id"_a = 0, WhileUnlocked())
      .def("wait", [](Call& call) { wait_for_news(call, true); })
      .def("wait_for_news", [](Call& call) { wait_for_news(call, false); })
      .def("take", taken)
      .def("cancel", &Call::cancel, WhileUnlocked())
      .def("check_end", &Call::check_end, WhileUnlocked())
      .def("answer_count", &Call::answer_count)
      .def("answer", answer_of)
      .def("alternatives", alternatives_of, "index"_a.none())
      .def("values", values_of);

  module.def("version", [] { return std::string(tenon_llm_version()); });
  module.def(
      "close_all",
      [] {
        begin_leaving();
        Engine::close_all();
      },
      WhileUnlocked());
  module.def("set_log_level", [](int32_t least) { tenon_llm_set_log(least, nullptr, nullptr); });
  module.attr("CONTINUE") = static_cast<uint32_t>(TENON_LLM_CONTINUE);
  module.attr("NO_TURN") = static_cast<uint32_t>(TENON_LLM_NO_TURN);
  module.attr("ANSWER") = static_cast<int32_t>(TENON_LLM_ANSWER);
  module.attr("EMBEDDING") = static_cast<int32_t>(TENON_LLM_EMBEDDING);
  module.attr("SCORE") = static_cast<int32_t>(TENON_LLM_SCORE);
}
