// Continues a text with a model that export.py saved. No Python is linked or run.
//
//   deploy MODEL TEXT [COUNT [LOGITS]]     COUNT characters more (60); LOGITS: a safetensors file for what the model
//   says
//                                          of TEXT
#include <smolder/core/safetensors.h>
#include <smolder/graph/graph.h>
#include <smolder/lazy/record.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

using namespace smolder;

namespace {

constexpr size_t kContext = 64;

/// Scores of each byte after each of the text's, [1, length, 128].
Tensor logits_of(const Graph& model, const std::string& text) {
  const std::string seen = text.size() > kContext ? text.substr(text.size() - kContext) : text;
  const std::vector<int64_t> bytes(seen.begin(), seen.end());
  const Tensor x = Tensor::from_data(bytes.data(), {1, static_cast<int64_t>(bytes.size())}, DType::kInt64);
  return model.run({x}).at(0);
}

char next(const Tensor& logits) {
  const std::vector<float> scores = logits.to_vector<float>();
  const auto last = scores.end() - 128;
  return static_cast<char>(std::max_element(last, scores.end()) - last);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || !*argv[2]) {
    std::cerr << "usage: deploy MODEL TEXT [COUNT [LOGITS]]\n";
    return 2;
  }
  try {
    const lazy::GradMode no_gradients(false);
    const Graph model = Graph::load(argv[1]);
    std::string text = argv[2];
    if (argc > 4) {
      const Tensor logits = logits_of(model, text);
      const BufferRef data = logits.materialize();
      const SafetensorsTensor out[] = {{"logits", logits.dtype(), logits.shape(), data->data()}};
      write_safetensors(argv[4], out);
    }
    for (int i = 0; i < (argc > 3 ? std::atoi(argv[3]) : 60); ++i) text += next(logits_of(model, text));
    std::cout << text << "\n";
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "deploy: " << e.what() << "\n";
    return 1;
  }
}
