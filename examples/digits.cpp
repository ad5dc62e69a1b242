// Trains a classifier on handwritten digits in C++: the model of examples/digits.py.
//
//   digits FILE.csv     rows of 64 pixels (0 to 16) and a label, comma-separated; scikit-learn's load_digits
//                       has them:  np.savetxt(FILE, np.c_[d.data, d.target], fmt="%d", delimiter=",")
#include <smolder/smolder.h>

#include <fstream>
#include <iostream>

using namespace smolder;

int main(int argc, char** argv) {
  std::ifstream file(argc > 1 ? argv[1] : "digits.csv");
  if (!file) return std::cerr << "usage: digits FILE.csv\n", 2;
  std::vector<float> numbers;
  for (float number = 0; file >> number; file.ignore()) numbers.push_back(number);
  manual_seed(0);
  const Tensor rows = tensor(numbers).view({-1, 65}), order = randperm(rows.size(0));
  const Tensor images = rows.narrow(1, 0, 64) / 16, labels = rows.select(1, 64).to(kInt64);
  const std::vector<Tensor> parts = order.split({rows.size(0) * 4 / 5, rows.size(0) - rows.size(0) * 4 / 5});

  nn::Sequential model(nn::Linear(64, 128), nn::ReLU(), nn::Dropout(0.2), nn::Linear(128, 64), nn::ReLU(),
                       nn::Dropout(0.2), nn::Linear(64, 10));
  optim::AdamW optimizer(model->parameters(), {.lr = 2e-3, .weight_decay = 0.01});
  const nn::CrossEntropyLoss criterion("mean", -100, 0.1);
  for (int epoch = 1; epoch <= 30; ++epoch) {
    Tensor loss;
    for (const Tensor& batch : parts[0].index_select(0, randperm(parts[0].size(0))).split(32)) {
      optimizer.zero_grad();
      loss = criterion(model(images.index_select(0, batch)), labels.index_select(0, batch));
      loss.backward();
      optimizer.step();
    }
    if (epoch % 10 == 0) std::cout << "epoch " << epoch << "  loss " << loss.item<float>() << "\n";
  }
  model->eval();
  const NoGradGuard no_gradients;
  const Tensor found = argmax(model(images.index_select(0, parts[1])), 1);
  const float accuracy = (found == labels.index_select(0, parts[1])).to(kFloat32).mean().item<float>();
  std::cout << "test accuracy " << 100 * accuracy << "% of " << parts[1].size(0) << " images\n";
  return accuracy >= 0.96 ? 0 : 1;
}
