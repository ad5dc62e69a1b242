#include "cuda_host/dense.h"

#include <dlfcn.h>

#include <algorithm>

namespace smolder::eager::cuda::host {

void queue(DriverStream stream, std::function<void()> work) {
  using Work = void (*)(const void*);
  using Queue = void (*)(DriverStream, Work, const void*);
  static const auto add = reinterpret_cast<Queue>(dlsym(RTLD_DEFAULT, "smolder_host_queue"));
  const auto* const kept = new std::function<void()>(std::move(work));
  add(stream, [](const void* p) { (*static_cast<const std::function<void()>*>(p))(); }, kept);
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out(a.rows, b.columns);
  for (int64_t j = 0; j < b.columns; ++j) {
    for (int64_t k = 0; k < a.columns; ++k) {
      for (int64_t i = 0; i < a.rows; ++i) out(i, j) += a(i, k) * b(k, j);
    }
  }
  return out;
}

int potrf(Matrix& a, BlasFill fill) {
  const bool upper = fill == BlasFill::kUpper;
  const auto at = [&](int64_t i, int64_t j) -> double& { return upper ? a(j, i) : a(i, j); };  // of the lower factor
  for (int64_t j = 0; j < a.rows; ++j) {
    double d = at(j, j);
    for (int64_t k = 0; k < j; ++k) d -= at(j, k) * at(j, k);
    if (!(d > 0)) return static_cast<int>(j + 1);
    at(j, j) = std::sqrt(d);
    for (int64_t i = j + 1; i < a.rows; ++i) {
      double x = at(i, j);
      for (int64_t k = 0; k < j; ++k) x -= at(i, k) * at(j, k);
      at(i, j) = x / at(j, j);
    }
  }
  return 0;
}

int getrf(Matrix& a, std::vector<int64_t>& pivots) {
  int info = 0;
  const int64_t n = a.rows, columns = a.columns, count = std::min(n, columns);
  pivots.resize(static_cast<size_t>(count));
  for (int64_t j = 0; j < count; ++j) {
    int64_t p = j;
    for (int64_t i = j + 1; i < n; ++i) {
      if (std::abs(a(i, j)) > std::abs(a(p, j))) p = i;
    }
    pivots[static_cast<size_t>(j)] = p + 1;
    if (a(p, j) == 0) {
      if (!info) info = static_cast<int>(j + 1);
      continue;
    }
    for (int64_t k = 0; k < columns; ++k) std::swap(a(j, k), a(p, k));
    for (int64_t i = j + 1; i < n; ++i) {
      a(i, j) /= a(j, j);
      for (int64_t k = j + 1; k < columns; ++k) a(i, k) -= a(i, j) * a(j, k);
    }
  }
  return info;
}

void trsm_left(const Matrix& a, bool upper, bool ones, Matrix& b) {
  const int64_t n = a.rows;
  for (int64_t c = 0; c < b.columns; ++c) {
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = upper ? n - 1 - step : step;
      double x = b(i, c);
      for (int64_t k = upper ? i + 1 : 0; k < (upper ? n : i); ++k) x -= a(i, k) * b(k, c);
      b(i, c) = ones ? x : x / a(i, i);
    }
  }
}

void getrs(const Matrix& lu, const std::vector<int64_t>& pivots, bool transposed, Matrix& b) {
  const int64_t n = lu.rows;
  const auto exchange = [&](int64_t i) {
    const int64_t p = pivots[static_cast<size_t>(i)] - 1;
    for (int64_t c = 0; c < b.columns; ++c) std::swap(b(i, c), b(p, c));
  };
  if (!transposed) {
    for (int64_t i = 0; i < n; ++i) exchange(i);
    trsm_left(lu, false, true, b);
    trsm_left(lu, true, false, b);
  } else {
    const Matrix turned = lu.transposed();
    trsm_left(turned, false, false, b);
    trsm_left(turned, true, true, b);
    for (int64_t i = n - 1; i >= 0; --i) exchange(i);
  }
}

void geqrf(Matrix& a, std::vector<double>& tau) {
  const int64_t k = std::min(a.rows, a.columns);
  tau.assign(static_cast<size_t>(k), 0);
  for (int64_t j = 0; j < k; ++j) {
    double below = 0;
    for (int64_t i = j + 1; i < a.rows; ++i) below += a(i, j) * a(i, j);
    if (below == 0) continue;  // the reflector is the identity
    const double beta = -std::copysign(std::sqrt(a(j, j) * a(j, j) + below), a(j, j));
    const double t = (beta - a(j, j)) / beta, scale = 1 / (a(j, j) - beta);
    for (int64_t i = j + 1; i < a.rows; ++i) a(i, j) *= scale;
    a(j, j) = beta;
    tau[static_cast<size_t>(j)] = t;
    for (int64_t c = j + 1; c < a.columns; ++c) {
      double dot = a(j, c);
      for (int64_t i = j + 1; i < a.rows; ++i) dot += a(i, j) * a(i, c);
      a(j, c) -= t * dot;
      for (int64_t i = j + 1; i < a.rows; ++i) a(i, c) -= t * dot * a(i, j);
    }
  }
}

void orgqr(Matrix& a, const std::vector<double>& tau) {
  Matrix q(a.rows, a.columns);
  for (int64_t i = 0; i < a.columns; ++i) q(i, i) = 1;
  for (int64_t j = static_cast<int64_t>(tau.size()) - 1; j >= 0; --j) {
    for (int64_t c = 0; c < q.columns; ++c) {
      double dot = q(j, c);
      for (int64_t i = j + 1; i < q.rows; ++i) dot += a(i, j) * q(i, c);
      dot *= tau[static_cast<size_t>(j)];
      q(j, c) -= dot;
      for (int64_t i = j + 1; i < q.rows; ++i) q(i, c) -= dot * a(i, j);
    }
  }
  a = q;
}

namespace {

/// Turns columns of `u` and `v` until those of `u` are orthogonal.
void turn(Matrix& u, Matrix& v) {
  constexpr int kMostSweeps = 60;
  bool turned = true;
  for (int sweep = 0; sweep < kMostSweeps && turned; ++sweep) {
    turned = false;
    for (int64_t p = 0; p < u.columns; ++p) {
      for (int64_t q = p + 1; q < u.columns; ++q) {
        double pp = 0, qq = 0, pq = 0;
        for (int64_t i = 0; i < u.rows; ++i) {
          pp += u(i, p) * u(i, p), qq += u(i, q) * u(i, q), pq += u(i, p) * u(i, q);
        }
        if (std::abs(pq) <= 1e-16 * std::sqrt(pp * qq)) continue;
        turned = true;
        const double zeta = (qq - pp) / (2 * pq);
        const double t = std::copysign(1, zeta) / (std::abs(zeta) + std::hypot(1, zeta));
        const double c = 1 / std::hypot(1, t), s = c * t;
        for (Matrix* const m : {&u, &v}) {
          for (int64_t i = 0; i < m->rows; ++i) {
            const double x = (*m)(i, p), y = (*m)(i, q);
            (*m)(i, p) = c * x - s * y;
            (*m)(i, q) = s * x + c * y;
          }
        }
      }
    }
  }
}

double length(const Matrix& a, int64_t j) {
  double sum = 0;
  for (int64_t i = 0; i < a.rows; ++i) sum += a(i, j) * a(i, j);
  return std::sqrt(sum);
}

std::vector<int64_t> order_of(const std::vector<double>& values, bool descending) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t i, int64_t j) {
    const double x = values[static_cast<size_t>(i)], y = values[static_cast<size_t>(j)];
    return descending ? x > y : x < y;
  });
  return order;
}

/// Square and orthogonal, and up to signs with the columns of `a`, which are orthonormal but for zeros at the end.
Matrix completed(const Matrix& a) {
  Matrix reflectors = a, all(a.rows, a.rows);
  std::vector<double> tau;
  geqrf(reflectors, tau);
  std::ranges::copy(reflectors.data, all.data.begin());
  orgqr(all, tau);
  return all;
}

}  // namespace

Svd svd(const Matrix& a) {
  Matrix u = a, v = Matrix::identity(a.columns);
  turn(u, v);
  std::vector<double> values;
  for (int64_t j = 0; j < a.columns; ++j) values.push_back(length(u, j));
  const std::vector<int64_t> order = order_of(values, true);
  const double least = 1e-14 * (values.empty() ? 0 : *std::ranges::max_element(values));
  Matrix left(a.rows, a.columns), right(a.columns, a.columns);
  std::vector<double> descending;
  for (int64_t j = 0; j < a.columns; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    const double value = values[static_cast<size_t>(from)];
    descending.push_back(value);
    for (int64_t i = 0; i < a.columns; ++i) right(i, j) = v(i, from);
    for (int64_t i = 0; i < a.rows; ++i) left(i, j) = value > least ? u(i, from) / value : 0;
  }
  Matrix square = completed(left);
  for (int64_t j = 0; j < a.columns && descending[static_cast<size_t>(j)] > least; ++j) {
    for (int64_t i = 0; i < a.rows; ++i) square(i, j) = left(i, j);
  }
  return {square, right, descending};
}

void syev(Matrix& a, std::vector<double>& all) {
  // Jacobi's turns of rows and columns.
  const int64_t n = a.rows;
  Matrix v = Matrix::identity(n);
  for (int sweep = 0; sweep < 60; ++sweep) {
    double rest = 0, whole = 0;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = 0; q < n; ++q) (p == q ? whole : rest) += a(p, q) * a(p, q);
    }
    if (rest <= 1e-32 * whole) break;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (a(p, q) == 0) continue;
        const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
        const double t = std::copysign(1, theta) / (std::abs(theta) + std::hypot(1, theta));
        const double c = 1 / std::hypot(1, t), s = c * t;
        const auto pair = [&](double& x, double& y) {
          const double was = x;
          x = c * was - s * y;
          y = s * was + c * y;
        };
        for (int64_t k = 0; k < n; ++k) pair(a(k, p), a(k, q));
        for (int64_t k = 0; k < n; ++k) pair(a(p, k), a(q, k));
        for (int64_t k = 0; k < n; ++k) pair(v(k, p), v(k, q));
      }
    }
  }
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(a(i, i));
  const std::vector<int64_t> order = order_of(values, false);
  all.clear();
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    all.push_back(values[static_cast<size_t>(from)]);
    for (int64_t i = 0; i < n; ++i) a(i, j) = v(i, from);
  }
}

}  // namespace smolder::eager::cuda::host
