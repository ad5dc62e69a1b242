// The one exception family. Every error that input can cause is one of these; the Python module maps
// each class to the builtin of the same name (OutOfMemoryError to a class of its own, which is RuntimeError
// and MemoryError), so a C++ throw and a Python raise read alike.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace smolder {

/// Base of every error Smolder throws. `what()` says what was asked, what was found, what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// Name of the Python builtin this becomes.
  virtual const char* python_type() const noexcept { return "RuntimeError"; }
  /// Throws the same class with another text.
  [[noreturn]] virtual void raise_with(const std::string& text) const { throw Error(text); }
};

#define SMOLDER_DECLARE_ERROR(Name, python)                                                    \
  class Name : public Error {                                                                  \
   public:                                                                                     \
    using Error::Error;                                                                        \
    const char* python_type() const noexcept override { return python; }                       \
    [[noreturn]] void raise_with(const std::string& text) const override { throw Name(text); } \
  };

SMOLDER_DECLARE_ERROR(RuntimeError, "RuntimeError")
SMOLDER_DECLARE_ERROR(TypeError, "TypeError")
SMOLDER_DECLARE_ERROR(ValueError, "ValueError")
SMOLDER_DECLARE_ERROR(IndexError, "IndexError")
SMOLDER_DECLARE_ERROR(NotImplementedError, "NotImplementedError")
SMOLDER_DECLARE_ERROR(OutOfMemoryError, "MemoryError")
/// A bug of ours: a broken invariant, never reachable by input alone.
SMOLDER_DECLARE_ERROR(InternalError, "SystemError")
#undef SMOLDER_DECLARE_ERROR

/// An exception of somebody else's code that runs within ours, as a Python exception in a kernel: it reaches the user
/// as it was.
class ForeignError : public Error {
 public:
  using Error::Error;
  /// Throws it again, noting where it was met.
  [[noreturn]] virtual void rethrow(const std::string& note) const = 0;
  [[noreturn]] void raise_with(const std::string& text) const override {
    rethrow(text);
    throw Error(text);  // not reached, which not every compiler sees
  }
};

/// Throws `E` with the parts streamed together.
template <class E, class... Parts>
[[noreturn]] void raise(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  throw E(out.str());
}

}  // namespace smolder

/// Throws `E` with the streamed parts unless `condition` holds; parts are evaluated only on failure.
#define SMOLDER_CHECK(condition, E, ...)           \
  do {                                             \
    if (!(condition)) [[unlikely]]                 \
      ::smolder::raise<::smolder::E>(__VA_ARGS__); \
  } while (0)

/// States an invariant of ours; failing is a bug in Smolder, reported as one, never an abort.
#define SMOLDER_INVARIANT(condition)                                                                       \
  SMOLDER_CHECK(condition, InternalError, "internal error at ", __FILE__, ":", __LINE__, ": ", #condition, \
                " does not hold; please report it")
