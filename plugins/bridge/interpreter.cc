#include "plugins/bridge/interpreter.h"

#include <dlfcn.h>

#include <mutex>

namespace tenon::bridge {

extern const char kBridgeText[];  // bridge.py

namespace {

constexpr int kFileInput = 257;  // Py_file_input
constexpr int kRead = 0x100;     // PyBUF_READ
constexpr int kNewest = 15, kOldest = 8;

template <typename Function>
void find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(::dlsym(library, name));
  if (out == nullptr) {
    throw std::runtime_error("this Python has no " + std::string(name) +
                             " – the bridge needs Python 3.8 or later");
  }
}

// The first that can be loaded. Its symbols are for all: extension modules look for them.
void* load_library(std::string_view wanted) {
  if (!wanted.empty()) {
    const std::string path(wanted);
    if (void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
    throw std::runtime_error("libpython cannot be loaded: " + std::string(::dlerror()));
  }
  for (int minor = kNewest; minor >= kOldest; --minor) {
    const std::string name = "libpython3." + std::to_string(minor) + ".so.1.0";
    if (void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
  }
  throw std::runtime_error(
      "there is no libpython that plugins in Python could run in – install it (Debian: "
      "libpython3), "
      "name it by the option libpython, or open the model in Python");
}

void fill(void* library, PythonApi& api) {
  find(library, "Py_IsInitialized", api.is_initialized);
  find(library, "Py_InitializeEx", api.initialize);
  find(library, "PyEval_SaveThread", api.save_thread);
  find(library, "PyGILState_Ensure", api.ensure);
  find(library, "PyGILState_Release", api.release);
  find(library, "Py_IncRef", api.increment);
  find(library, "Py_DecRef", api.decrement);
  find(library, "Py_CompileString", api.compile);
  find(library, "PyEval_EvalCode", api.evaluate);
  find(library, "PyEval_GetBuiltins", api.builtins);
  find(library, "PyDict_New", api.new_dict);
  find(library, "PyDict_SetItemString", api.set_item);
  find(library, "PyDict_GetItemString", api.item);
  find(library, "PyObject_GetAttrString", api.attribute);
  find(library, "PyObject_CallObject", api.call);
  find(library, "PyTuple_New", api.new_tuple);
  find(library, "PyTuple_SetItem", api.set_tuple);
  find(library, "PyTuple_GetItem", api.in_tuple);
  find(library, "PyTuple_Size", api.tuple_size);
  find(library, "PyList_New", api.new_list);
  find(library, "PyList_SetItem", api.set_list);
  find(library, "PyList_GetItem", api.in_list);
  find(library, "PyList_Size", api.list_size);
  find(library, "PyLong_FromLongLong", api.from_int);
  find(library, "PyLong_FromUnsignedLongLong", api.from_uint);
  find(library, "PyLong_AsLongLong", api.to_int);
  find(library, "PyFloat_FromDouble", api.from_real);
  find(library, "PyUnicode_FromStringAndSize", api.from_text);
  find(library, "PyUnicode_AsUTF8String", api.to_bytes);
  find(library, "PyBytes_AsString", api.bytes);
  find(library, "PyMemoryView_FromMemory", api.from_memory);
  find(library, "PyCFunction_NewEx", api.new_function);
  find(library, "PyCapsule_New", api.new_capsule);
  find(library, "PyCapsule_GetPointer", api.in_capsule);
  find(library, "PyObject_IsTrue", api.is_true);
  find(library, "PyErr_Occurred", api.error);
  find(library, "PyErr_Clear", api.clear_error);
  find(library, "PyErr_SetString", api.set_error);
  find(library, "PyExc_RuntimeError", api.runtime_error);
}

// bridge.py's names. Once a process. Not under the lock: a thread that had it and waited here for
// another one would keep that from ending.
PyObject* bridge_names(const PythonApi& api) {
  static PyObject* names = [&] {
    const Locked locked(api);
    Object made(api, api.new_dict());
    api.set_item(made.get(), "__builtins__", api.builtins());
    const Object name(api, api.from_text("tenon_bridge", 12));
    api.set_item(made.get(), "__name__", name.get());
    const Object code(api, api.compile(kBridgeText, "tenon_bridge.py", kFileInput));
    const Object ran(api, api.evaluate(code.get(), made.get(), made.get()));
    return made.give();
  }();
  return names;
}

std::string text_of(const PythonApi& api, PyObject* text) {
  const Object bytes(api, api.to_bytes(text));
  return api.bytes(bytes.get());
}

// The second member of ("", result). Throws the first where it says something.
Object result_of(const PythonApi& api, const Object& answer) {
  const std::string problem = text_of(api, api.in_tuple(answer.get(), 0));
  if (!problem.empty()) throw std::runtime_error(problem);
  PyObject* result = api.in_tuple(answer.get(), 1);
  api.increment(result);
  return {api, result};
}

}  // namespace

const PythonApi& python(std::string_view library) {
  static std::mutex mutex;
  static PythonApi api = {};
  static bool is_ready = false;
  const std::lock_guard lock(mutex);
  if (is_ready) return api;
  using IsInitialized = int (*)();
  const auto here = reinterpret_cast<IsInitialized>(::dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  const bool is_python = here != nullptr && here() != 0;
  fill(is_python ? RTLD_DEFAULT : load_library(library), api);
  if (!is_python) {
    api.initialize(0);
    api.save_thread();
  }
  is_ready = true;
  return api;
}

Plugin::Plugin(std::string_view interface, const Source& source) : api_(python(source.library)) {
  PyObject* names = bridge_names(api_);
  const Locked locked(api_);
  PyObject* open = api_.item(names, "open_plugin");
  std::vector<Object> given;
  for (const std::string_view one :
       {interface, source.file, source.name, source.arguments, source.key}) {
    given.push_back(text(one));
  }
  const Object arguments = tuple(std::move(given));
  const Object answer(api_, api_.call(open, arguments.get()));
  Object made = result_of(api_, answer);
  const Object listens(api_, api_.attribute(made.get(), "listens"));
  listens_ = api_.is_true(listens.get()) == 1;
  object_ = made.give();
}

Plugin::~Plugin() {
  if (api_.is_initialized() == 0) return;  // the process is at its end
  const Locked locked(api_);
  api_.decrement(object_);
}

Object Plugin::call(const char* method, std::vector<Object> arguments) const {
  const Object given = tuple(std::move(arguments));
  const Object function(api_, api_.attribute(object_, method));
  const Object answer(api_, api_.call(function.get(), given.get()));
  return result_of(api_, answer);
}

Object Plugin::memory(const void* data, size_t bytes) const {
  static char nothing = 0;
  char* place = bytes == 0 ? &nothing : static_cast<char*>(const_cast<void*>(data));
  return {api_, api_.from_memory(place, static_cast<PySize>(bytes), kRead)};
}

Object Plugin::tuple(std::vector<Object> items) const {
  Object made(api_, api_.new_tuple(static_cast<PySize>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    api_.set_tuple(made.get(), static_cast<PySize>(i), items[i].give());
  }
  return made;
}

Object Plugin::list(std::vector<Object> items) const {
  Object made(api_, api_.new_list(static_cast<PySize>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    api_.set_list(made.get(), static_cast<PySize>(i), items[i].give());
  }
  return made;
}

}  // namespace tenon::bridge
