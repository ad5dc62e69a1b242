// Source lines: a token for each (code object, instruction) seen. Its text is made when the token is,
// once, so that reading it later needs no GIL: reports are written under the tape's lock.
#include "smolder/core/source_line.h"

#include <cxxabi.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "smolder/core/fork.h"
#include "src/cells.h"
#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

struct Place {
  PyCodeObject* code;  ///< owned: its address must not be used again
  int instruction;
  friend bool operator==(const Place&, const Place&) = default;
};
struct PlaceHash {
  size_t operator()(const Place& p) const { return reinterpret_cast<size_t>(p.code) * 31 + p.instruction; }
};

/// Tokens are made with the GIL held; texts are read without it.
std::unordered_map<Place, SourceToken, PlaceHash>* g_tokens = nullptr;
std::unordered_map<PyCodeObject*, bool>* g_ours = nullptr;
ForkMutex g_texts_lock;
std::vector<std::string>* g_texts = nullptr;
std::string* g_package = nullptr;  ///< folder of the package: its own frames are not the user's
PyObject* g_cells = nullptr;       ///< IPython's dictionary: the cell that a file of source stands for

/// The line that was running when this thread let go of the GIL.
thread_local SourceToken t_before_release = 0;

bool is_ours(PyCodeObject* code) {
  const auto [at, fresh] = g_ours->try_emplace(code, false);
  if (fresh) {
    Py_INCREF(code);
    const char* const file = PyUnicode_AsUTF8(code->co_filename);
    at->second = file && std::string_view(file).starts_with(*g_package);
    PyErr_Clear();
  }
  return at->second;
}

/// "train.py:3 in f", or "cell 3, line 2 in f". Runs no code of Python's, as the tape may be locked.
std::string text_of(PyCodeObject* code, int line) {
  const char* const file = PyUnicode_AsUTF8(code->co_filename);
  const char* const name = PyUnicode_AsUTF8(code->co_name);
  const std::string function = name ? name : "?";
  PyObject* const cell = g_cells ? PyDict_GetItemWithError(g_cells, code->co_filename) : nullptr;  // borrowed
  std::string text;
  if (cell && PyLong_Check(cell)) {
    text = "cell " + std::to_string(PyLong_AsLong(cell)) + ", line " + std::to_string(line);
    const bool outside = function == "<module>" || function.starts_with("<cell line");
    if (!outside) text += " in " + function;
  } else {
    text = std::string(file ? file : "?") + ":" + std::to_string(line) + " in " + function;
  }
  PyErr_Clear();
  return text;
}

SourceToken capture() {
  if (!PyGILState_Check()) return t_before_release;
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  Py_XINCREF(frame);
  PyCodeObject* code = nullptr;
  while (frame) {
    code = PyFrame_GetCode(frame);
    if (!is_ours(code)) break;
    Py_DECREF(code);
    PyFrameObject* const back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  if (!frame) return 0;
  const Place place{code, PyFrame_GetLasti(frame)};
  SourceToken token = 0;
  if (const auto known = g_tokens->find(place); known != g_tokens->end()) {
    token = known->second;
    Py_DECREF(code);
  } else {
    std::string text = text_of(code, PyFrame_GetLineNumber(frame));
    const std::lock_guard hold(g_texts_lock);
    g_texts->push_back(std::move(text));
    token = static_cast<SourceToken>(g_texts->size());
    g_tokens->emplace(place, token);
  }
  Py_DECREF(frame);
  return token;
}

std::string resolve(SourceToken token) {
  const std::lock_guard hold(g_texts_lock);
  return token && token <= g_texts->size() ? (*g_texts)[token - 1] : std::string();
}

}  // namespace

SourceToken source_named(const std::string& text) {
  static auto* const known = new std::unordered_map<std::string, SourceToken>;
  const std::lock_guard hold(g_texts_lock);
  SourceToken& token = (*known)[text];
  if (!token) {
    g_texts->push_back(text);
    token = static_cast<SourceToken>(g_texts->size());
  }
  return token;
}

namespace {

[[noreturn]] void wait_for_the_end() {
  while (true) pause();
}

/// Calls what takes the GIL, or never returns.
auto or_wait_for_the_end(auto&& take) {
  try {
    return take();
  } catch (const abi::__forced_unwind&) {
    wait_for_the_end();
  }
}

}  // namespace

void take_gil_back(PyThreadState* state) {
  or_wait_for_the_end([state] { PyEval_RestoreThread(state); });
}

WithGil::WithGil() : state_(or_wait_for_the_end([] { return PyGILState_Ensure(); })) {}

WithGil::~WithGil() {
  // Python code called in this scope lets others have the GIL. When it wants it back and the interpreter is going away,
  // Python unwinds this thread to here without it.
  if (!PyGILState_Check()) wait_for_the_end();
  PyGILState_Release(state_);
}

WithoutGil::WithoutGil() : before_(std::exchange(t_before_release, capture_source())), state_(PyEval_SaveThread()) {}

WithoutGil::~WithoutGil() {
  take_gil_back(state_);
  t_before_release = before_;
}

void install_source_provider(const std::string& package_folder) {
  g_tokens = new std::unordered_map<Place, SourceToken, PlaceHash>;
  g_ours = new std::unordered_map<PyCodeObject*, bool>;
  g_texts = new std::vector<std::string>;
  g_package = new std::string(package_folder);
  set_source_provider({&capture, &resolve});
}

void set_cells(nb::dict cells) {
  Py_XDECREF(g_cells);
  g_cells = cells.release().ptr();
}

}  // namespace smolder::python
