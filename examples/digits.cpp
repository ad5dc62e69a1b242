// Trains a classifier on handwritten digits in C++: the model of examples/digits.py.
//
//   digits FILE.csv     rows of 64 pixels (0 to 16) and a label, comma-separated; scikit-learn's load_digits
//                       has them:  np.savetxt(FILE, np.c_[d.data, d.target], fmt="%d", delimiter=",")
#include <smolder/core/counters.h>
#include <smolder/lazy/ops.h>
#include <smolder/lazy/random.h>
#include <smolder/lazy/record.h>
#include <smolder/nn/modules.h>
#include <smolder/nn/optim.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <numbers>
#include <numeric>
#include <random>
#include <sstream>

using namespace smolder;

namespace {

struct Digits {
  std::vector<float> pixels;
  std::vector<int64_t> labels;
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

Digits read(const char* path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(std::string("can't open ") + path);
  Digits d;
  for (std::string line; std::getline(in, line);) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream row(line);
    float v = 0;
    for (int i = 0; i < 64 && row >> v; ++i) d.pixels.push_back(v / 16);
    if (!(row >> v)) throw std::runtime_error("expected 65 numbers in: " + line);
    d.labels.push_back(static_cast<int64_t>(v));
  }
  return d;
}

struct Batch {
  Tensor x, y;
};

Batch gather(const Digits& d, std::span<const int64_t> rows) {
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int64_t r : rows) {
    x.insert(x.end(), d.pixels.begin() + r * 64, d.pixels.begin() + (r + 1) * 64);
    y.push_back(d.labels[r]);
  }
  const int64_t n = static_cast<int64_t>(rows.size());
  return {Tensor::from_data(x.data(), {n, 64}, DType::kFloat32), Tensor::from_data(y.data(), {n}, DType::kInt64)};
}

int train(const Digits& digits) {
  manual_seed(0);
  std::vector<int64_t> order(digits.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 shuffler(0);
  std::shuffle(order.begin(), order.end(), shuffler);
  const size_t split = order.size() * 4 / 5;
  const std::span<const int64_t> test(order.begin() + split, order.end());

  nn::Sequential model(nn::Linear(64, 128), nn::ReLU(), nn::Dropout(0.2), nn::Linear(128, 64), nn::ReLU(),
                       nn::Dropout(0.2), nn::Linear(64, 10));
  optim::AdamW optimizer(model->parameters(), {.weight_decay = 0.01});
  const nn::CrossEntropyLoss criterion("mean", -100, 0.1);
  constexpr int kEpochs = 30;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    optimizer.options.lr = 3e-3 * (1 + std::cos(std::numbers::pi * epoch / kEpochs)) / 2;
    std::shuffle(order.begin(), order.begin() + split, shuffler);
    Tensor loss;
    for (size_t at = 0; at + 32 <= split; at += 32) {
      const Batch batch = gather(digits, {order.begin() + at, 32});
      optimizer.zero_grad();
      loss = criterion(model(batch.x), batch.y);
      loss.backward();
      optimizer.step();
      mark_step();
    }
    if (epoch % 10 == 9) std::printf("epoch %2d  loss %.4f\n", epoch + 1, loss.item().to_double());
  }
  model->eval();
  const Batch held = gather(digits, test);
  const lazy::GradMode off(false);
  const double accuracy = mean((argmax(model(held.x), 1) == held.y).to(DType::kFloat32)).item().to_double();
  std::printf("test accuracy %.2f%% of %zu images\n", 100 * accuracy, test.size());
  return accuracy >= 0.97 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: digits FILE.csv\n";
    return 2;
  }
  try {
    return train(read(argv[1]));
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
