// Errors between processes. In Python these are torch.distributed's classes.
#pragma once

#include "smolder/core/error.h"

namespace smolder::distributed {

/// Base of the others.
class DistError : public Error {
 public:
  using Error::Error;
  const char* python_type() const noexcept override { return "DistError"; }
  [[noreturn]] void raise_with(const std::string& text) const override { throw DistError(text); }
};

/// A collective could not be done: a rank died, hung, or did something else than the others.
class DistBackendError : public DistError {
 public:
  using DistError::DistError;
  const char* python_type() const noexcept override { return "DistBackendError"; }
  [[noreturn]] void raise_with(const std::string& text) const override { throw DistBackendError(text); }
};

/// No connection, or it ended.
class DistNetworkError : public DistError {
 public:
  using DistError::DistError;
  const char* python_type() const noexcept override { return "DistNetworkError"; }
  [[noreturn]] void raise_with(const std::string& text) const override { throw DistNetworkError(text); }
};

/// A store was asked for what it has not got, or was not given in time.
class DistStoreError : public DistError {
 public:
  using DistError::DistError;
  const char* python_type() const noexcept override { return "DistStoreError"; }
  [[noreturn]] void raise_with(const std::string& text) const override { throw DistStoreError(text); }
};

}  // namespace smolder::distributed
