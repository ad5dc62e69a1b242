// Initialisers: each writes its tensor in place, untracked, from a generator or the default
// one, and returns it.
#pragma once

#include "smolder/lazy/tensor.h"

namespace smolder::nn::init {

Tensor uniform_(const Tensor& t, double low = 0, double high = 1, Generator* generator = nullptr);
Tensor normal_(const Tensor& t, double mean = 0, double std = 1, Generator* generator = nullptr);
Tensor constant_(const Tensor& t, double value);
inline Tensor zeros_(const Tensor& t) { return constant_(t, 0); }
inline Tensor ones_(const Tensor& t) { return constant_(t, 1); }
/// Glorot and Bengio 2010: uniform in +-gain * sqrt(6 / (fan_in + fan_out)). Needs two dimensions or more.
Tensor xavier_uniform_(const Tensor& t, double gain = 1, Generator* generator = nullptr);
/// He et al. 2015 with a leaky slope `a`: uniform in +-sqrt(6 / ((1 + a^2) * fan_in)).
Tensor kaiming_uniform_(const Tensor& t, double a = 0, Generator* generator = nullptr);

}  // namespace smolder::nn::init
