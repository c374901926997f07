// Python, as far as the bridge needs it: functions of its stable ABI, found when they are needed.
//
// The bridge is not linked to any Python. In a process that is Python (an LLM in a notebook) its
// functions are there already; elsewhere libpython is loaded and an interpreter begun, which stays
// until the process ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::bridge {

struct PyObject;  // opaque
using PySize = std::ptrdiff_t;
using PyCall = PyObject* (*)(PyObject* self, PyObject* arguments);

// Functions of the stable ABI since Python 3.8.
struct PythonApi {
  int (*is_initialized)();
  void (*initialize)(int signals);
  PyObject* (*save_thread)();
  int (*ensure)();
  void (*release)(int state);
  void (*increment)(PyObject*);
  void (*decrement)(PyObject*);
  PyObject* (*compile)(const char* text, const char* file, int start);
  PyObject* (*evaluate)(PyObject* code, PyObject* globals, PyObject* locals);
  PyObject* (*builtins)();
  PyObject* (*new_dict)();
  int (*set_item)(PyObject* dict, const char* key, PyObject* value);
  PyObject* (*item)(PyObject* dict, const char* key);
  PyObject* (*attribute)(PyObject* object, const char* name);
  PyObject* (*call)(PyObject* function, PyObject* arguments);
  PyObject* (*new_tuple)(PySize size);
  int (*set_tuple)(PyObject* tuple, PySize place, PyObject* value);
  PyObject* (*in_tuple)(PyObject* tuple, PySize place);
  PySize (*tuple_size)(PyObject* tuple);
  PyObject* (*new_list)(PySize size);
  int (*set_list)(PyObject* list, PySize place, PyObject* value);
  PyObject* (*in_list)(PyObject* list, PySize place);
  PySize (*list_size)(PyObject* list);
  PyObject* (*from_int)(long long);
  PyObject* (*from_uint)(unsigned long long);
  long long (*to_int)(PyObject*);
  PyObject* (*from_real)(double);
  PyObject* (*from_text)(const char* text, PySize bytes);
  PyObject* (*to_bytes)(PyObject* text);
  char* (*bytes)(PyObject* bytes);
  PyObject* (*from_memory)(char* data, PySize bytes, int flags);
  PyObject* (*new_function)(void* definition, PyObject* self, PyObject* module);
  PyObject* (*new_capsule)(void* pointer, const char* name, void* destructor);
  void* (*in_capsule)(PyObject* capsule, const char* name);
  int (*is_true)(PyObject*);
  PyObject* (*error)();
  void (*clear_error)();
  void (*set_error)(PyObject* type, const char* text);
  PyObject** runtime_error;
};

// Loads libpython if this process has no Python: `library`, or the newest that the system has.
// Throws where there is none.
const PythonApi& python(std::string_view library);

// Holds the interpreter's lock.
class Locked {
 public:
  explicit Locked(const PythonApi& api) : api_(api), state_(api.ensure()) {}
  ~Locked() { api_.release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  const PythonApi& api_;
  const int state_;
};

// An object that is owned. Under the lock.
class Object {
 public:
  Object(const PythonApi& api, PyObject* object) : api_(&api), object_(object) {
    if (object != nullptr) return;
    api.clear_error();
    throw std::runtime_error("Python is out of memory");
  }
  Object(Object&& other) noexcept : api_(other.api_), object_(other.object_) {
    other.object_ = nullptr;
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  Object& operator=(Object&&) = delete;
  ~Object() {
    if (object_ != nullptr) api_->decrement(object_);
  }
  PyObject* get() const { return object_; }
  PyObject* give() {
    PyObject* given = object_;
    object_ = nullptr;
    return given;
  }

 private:
  const PythonApi* api_;
  PyObject* object_;
};

// The bridge's object for a plugin, made by `open_plugin` of bridge.py.
class Plugin {
 public:
  struct Source {
    std::string_view file, name, arguments, key, library;
  };
  // Throws what the Python side says is wrong.
  Plugin(std::string_view interface, const Source& source);
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const PythonApi& api() const { return api_; }
  bool listens() const { return listens_; }
  // The result of a method. `arguments` are taken. Throws what went wrong. Under the lock.
  Object call(const char* method, std::vector<Object> arguments) const;

  Object integer(int64_t value) const { return {api_, api_.from_int(value)}; }
  Object whole(uint64_t value) const { return {api_, api_.from_uint(value)}; }
  Object real(double value) const { return {api_, api_.from_real(value)}; }
  Object text(std::string_view value) const {
    return {api_, api_.from_text(value.data(), static_cast<PySize>(value.size()))};
  }
  // Memory that is lent for the time of a call.
  Object memory(const void* data, size_t bytes) const;
  Object tuple(std::vector<Object> items) const;
  Object list(std::vector<Object> items) const;

 private:
  const PythonApi& api_;
  PyObject* object_ = nullptr;
  bool listens_ = false;
};

}  // namespace tenon::bridge
