// Files of graphs, changed at random: each is loaded, and run where it is small, or refused. SMOLDER_TEST_FUZZ_SECONDS
// is how long (a few hundred files without it), SMOLDER_TEST_SEED the first seed. What is tried is written to a file
// first, so that a crash leaves it there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "smolder/autograd/control_flow.h"
#include "smolder/core/safetensors.h"

#include "smolder/graph/graph.h"
#include "smolder/graph/state.h"
#include "smolder/ir/op.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/random.h"

namespace smolder {
namespace {

int64_t environment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

Tensor floats(Dims shape) {
  std::vector<float> data(static_cast<size_t>(numel(shape)));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 13) / 4 - 1;
  return Tensor::from_data(data.data(), shape, DType::kFloat32);
}

/// Graphs with ops of all kinds: products, reductions, convolutions, indices, lists, random numbers, gradients.
std::vector<Graph> seeds() {
  using Tensors = std::vector<Tensor>;
  const Tensor w = floats({6, 4}), kernel = floats({3, 2, 3, 3});
  const auto dynamic = [](size_t n) { return std::vector<std::map<int, std::string>>(n, {{0, "n"}}); };
  std::vector<Graph> out;
  out.push_back(capture(
      [&](const Tensors& in) {
        const Tensor h = tanh(matmul(in[0], w));
        return Tensors{softmax(h, -1), sum(h, 0, true), cat({h, h * 2.0}, 1), reshape(h, {in[0].size(0) * 2, 2})};
      },
      {floats({5, 6})}, {.weights = {{"w", w}}, .dynamic_shapes = dynamic(1)}));
  out.push_back(capture(
      [&](const Tensors& in) {
        const Tensor c = conv2d(in[0], kernel, {}, {2, 2}, {1, 1});
        return Tensors{max_pool2d(relu(c), {2, 2}), mean(c, {2, 3}), flip(c, {3}), cumsum(c, 1)};
      },
      {floats({2, 2, 9, 8})}, {.weights = {{"kernel", kernel}}, .dynamic_shapes = dynamic(1)}));
  out.push_back(capture(
      [](const Tensors& in) {
        const Tensor i = (abs(in[0]) * 3.0).to(DType::kInt64).clamp_max(3);
        return Tensors{gather(in[0], 1, i),
                       std::get<0>(topk(in[0], 2, 1)),
                       std::get<1>(sort(in[0], 0)),
                       index_select(in[0], 0, flatten(slice(i, 0, 0, 1))),
                       one_hot(i, 4),
                       roll(in[0], {1}, {0})};
      },
      {floats({4, 4})}));
  out.push_back(capture(
      [](const Tensors& in) {
        return Tensors{dropout(in[0], 0.5, true) + rand({in[0].size(0), 3}), transpose(in[0], 0, 1),
                       expand(unsqueeze(in[0], 0), {2, in[0].size(0), 3}), tril(in[0]), where(in[0] > 0.0, in[0], 1.0)};
      },
      {floats({4, 3})}, {.dynamic_shapes = dynamic(1)}));
  out.push_back(capture(
      [&](const Tensors& in) {
        const Tensors y = cond(
            sum(in[0]) > 0.0, [&](const Tensors& x) { return Tensors{matmul(x[0], w)}; },
            [&](const Tensors& x) { return Tensors{slice(x[0], 1, 0, 4) - 1.0}; }, {in[0]});

        const auto step = [](const Tensors& c, const Tensors& x) {
          const Tensor s = c[0] + x[0];
          return CarryAndSlices{{s}, {s * 2.0}};
        };
        const auto [carry, slices] = scan(step, {floats({4})}, y);
        return Tensors{y[0], carry[0], slices[0]};
      },
      {floats({5, 6})}));
  out.push_back(capture(
      [](const Tensors& in) {
        return while_loop([](const Tensors& c) { return c[0] < 3; },
                          [](const Tensors& c) { return Tensors{c[0] + 1, c[1] * 2.0}; },
                          {zeros({}, DType::kInt64), in[0]});
      },
      {floats({5, 6})}));
  out.push_back(capture(
      [&](const Tensors& in) {
        const Tensor& x = in[0];
        return Tensors{sum(avg_pool2d(x, {3, 2}, {2, 2}, {1, 1})) + sum(max_pool2d(x, {3, 3}, {1, 2}, {1, 0}, {2, 1})) +
                       sum(interpolate_to(x, {7, 5}, "bilinear")) + sum(adaptive_avg_pool2d(x, {4, 3})) +
                       sum(constant_pad(x, {0, 0, 1, 2}, {0, 0, 2, 0}))};
      },
      {floats({1, 2, 9, 8})}));
  out.push_back(out.back().differentiate({"input_0"}));
  out.push_back(out[0].differentiate({"input_0", "w"}));
  return out;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t below(size_t n) { return n ? random_() % n : 0; }

  /// Text of a graph with a few tokens, numbers, names or lines changed.
  std::string text(std::string t) {
    for (size_t n = 1 + below(4); n > 0 && !t.empty(); --n) {
      switch (below(12)) {
        case 0:
        case 1:
        case 6:
        case 7:  // an attribute, or a size
          replace_token(t, number_at(t, "=[ "), number());
          break;
        case 8:
        case 9:  // an operand
          replace_token(t, number_at(t, "%"), std::to_string(below(16)));
          break;
        case 10:
        case 2: {  // another op
          const std::span<const ir::OpInfo> ops = ir::op_table();
          const size_t at = t.find(" = ", below(t.size()));
          if (at == t.npos) break;
          const size_t end = t.find('(', at);
          if (end != t.npos) t.replace(at + 3, end - at - 3, ops[below(ops.size())].name);
          break;
        }
        case 3: {  // a line goes, or comes again elsewhere
          const auto [begin, end] = line(t);
          const std::string copy = t.substr(begin, end - begin);
          if (below(2)) t.erase(begin, end - begin);
          t.insert(line(t).first, copy);
          break;
        }
        case 4: {
          static constexpr const char* kTokens[] = {
              "s0",    "weak ", "none", "_", "%1",      "int64",     "bool",         "float16",
              "true",  "false", "[",    "]", "(s0*s0)", "min(s0,2)", "words=[1, 2]", "nan(0x7ff8000000000000)",
              "fixed", "(",     ")",    ",", "inf",     "-inf"};
          t.insert(below(t.size()), kTokens[below(std::size(kTokens))]);
          break;
        }
        case 5:
          t.erase(below(t.size()), 1 + below(6));
          break;
        default:
          t[below(t.size())] = static_cast<char>(32 + below(95));
      }
    }
    return t;
  }

  std::string bytes(std::string t) {
    for (size_t n = 1 + below(3); n > 0 && !t.empty(); --n) {
      const size_t at = below(t.size());
      switch (below(4)) {
        case 0:
          t[at] = static_cast<char>(random_());
          break;
        case 1:
          t.resize(at);
          break;
        case 2:
          t.erase(at, below(9));
          break;
        default:
          t.insert(at, t.substr(below(t.size()), below(20)));
      }
    }
    return t;
  }

 private:
  std::string number() {
    static constexpr int64_t kNumbers[] = {
        0,           1,  -1, 2,  3,  4,   5,         7,         8,         9,         16,        64,
        -2,          -3, -9, 33, 99, 255, 1LL << 31, 1LL << 32, 1LL << 40, INT64_MAX, INT64_MIN, INT64_MAX / 2,
        -(1LL << 33)};
    return below(4) ? std::to_string(below(10)) : std::to_string(kNumbers[below(std::size(kNumbers))]);
  }
  /// The beginning and end of some number of a node's arguments, behind one of these characters.
  std::pair<size_t, size_t> number_at(const std::string& t, std::string_view behind) {
    const size_t start = t.find('(', t.find(" = ", below(t.size()))), stop = std::min(t.find('\n', start), t.size());
    std::vector<size_t> found;
    for (size_t i = start; i < stop; ++i) {
      if (std::isdigit(static_cast<unsigned char>(t[i])) && behind.find(t[i - 1]) != behind.npos) found.push_back(i);
    }
    if (found.empty()) return {0, 0};
    const size_t begin = found[below(found.size())];
    return {begin, std::min(t.find_first_not_of("0123456789", begin), t.size())};
  }
  static void replace_token(std::string& t, std::pair<size_t, size_t> at, const std::string& fresh) {
    t.replace(at.first, at.second - at.first, fresh);
  }
  std::pair<size_t, size_t> line(const std::string& t) {
    const size_t at = below(t.size() + 1);
    const size_t before = at == 0 ? t.npos : t.rfind('\n', at - 1);
    const size_t begin = before == t.npos ? 0 : before + 1;
    return {begin, std::min(t.find('\n', at), t.size() - 1) + 1};
  }

  std::mt19937_64 random_;
};

/// Whether it may be run here: no memory to speak of, and so not for long, whatever its attributes are.
bool is_small(const Graph& g) {
  double elements = 0;
  for (const ir::ValueInfo& v : g.state().ir.values) {
    double n = 1;
    for (const ir::Dim& d : v.shape) n *= static_cast<double>(d.value);
    elements += n;
  }
  for (const ir::Node& n : g.state().ir.nodes) {
    if (ir::name(n.op).find("while") != std::string_view::npos) return false;  // it may have no end
  }
  return elements < 100'000;
}

/// The text with the shapes that its rules say, where they say any: what was changed then is no contradiction.
std::string repaired(const std::string& text) {
  try {
    graph::State s = graph::parse_state(text);
    graph::infer_shapes(s);
    return graph::text_of(s);
  } catch (const Error&) {
    return text;
  }
}

void use(const Graph& loaded) {
  EXPECT_EQ(Graph::parse(loaded.to_string()).to_string(), loaded.to_string());
  loaded.nodes();
  if (!is_small(loaded)) return;
  std::vector<Tensor> inputs;
  const std::vector<ir::ValueId> leaves = loaded.state().leaves();
  for (size_t i = 0; i < loaded.input_names().size(); ++i) {
    const ir::ValueInfo& v = loaded.state().ir.info(leaves[i]);
    inputs.push_back(floats(v.shape.values()).to(v.dtype));
  }
  try {
    for (const Tensor& t : loaded.run(inputs)) t.materialize();
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {  // as of any call
  }
  mark_step();
}

/// Ends the process, which leaves what was tried, where it has not ended long after it should.
struct Deadline {
  Deadline() { alarm(120); }
  ~Deadline() { alarm(0); }
};

// An attribute is how much is to be done where nothing bounds it but the file.
TEST(GraphFuzz, AttributesAtTheirLimitsEndSoon) {
  int64_t loaded = 0, refused = 0;
  for (const Graph& g : seeds()) {
    const std::string text = g.to_string();
    for (size_t at = 1; at < text.size(); ++at) {
      if (!std::isdigit(static_cast<unsigned char>(text[at])) || std::string_view("=[ ").find(text[at - 1]) > 2)
        continue;
      const size_t end = text.find_first_not_of("0123456789", at);
      for (const int64_t limit : {int64_t{1} << 31, int64_t{1} << 40, INT64_MAX}) {
        std::string changed = text;
        changed.replace(at, end - at, std::to_string(limit));
        const Deadline deadline;
        try {
          const Graph other = Graph::parse(repaired(changed));
          ++loaded;
          use(other);
        } catch (const ValueError&) {
          ++refused;
        } catch (const std::exception& e) {
          ADD_FAILURE() << e.what() << " of\n" << changed;
        }
      }
    }
  }
  std::cout << loaded << " loaded, " << refused << " refused" << std::endl;
  EXPECT_GT(loaded, 10);
  EXPECT_GT(refused, 100);
}

TEST(GraphFuzz, ChangedFilesAreGraphsOrErrors) {
  const auto folder = std::filesystem::temp_directory_path() / ("smolder-fuzz-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder / "tried.safetensors";
  std::cout << "tried: " << path << std::endl;
  struct Seed {
    std::string bytes;
    SafetensorsMetadata metadata;
    nn::Named<Tensor> weights;
  };
  std::vector<Seed> files;
  for (const Graph& g : seeds()) {
    g.save(path);
    std::ifstream in(path, std::ios::binary);
    files.push_back({{std::istreambuf_iterator<char>(in), {}}, SafetensorsFile(path).metadata(), g.weights()});
  }
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(environment("SMOLDER_TEST_FUZZ_SECONDS", 0));
  const int64_t first = environment("SMOLDER_TEST_SEED", 0);
  int64_t loaded = 0, refused = 0;
  for (int64_t i = 0; i < 400 || Clock::now() < end; ++i) {
    Mutator mutate(static_cast<uint64_t>(first + i));
    Seed seed = files[mutate.below(files.size())];
    if (mutate.below(4) == 0) {
      std::ofstream(path, std::ios::binary) << mutate.bytes(seed.bytes);
    } else {
      std::string& text = seed.metadata["smolder.graph"];
      text = mutate.text(text);
      if (mutate.below(4)) text = repaired(text);
      std::vector<SafetensorsTensor> tensors;
      std::vector<BufferRef> memory;
      for (const auto& [name, t] : seed.weights) {
        memory.push_back(t.materialize());
        tensors.push_back({name, t.dtype(), t.shape(), memory.back()->data()});
      }
      if (text.find('\0') == text.npos) write_safetensors(path, tensors, seed.metadata);
    }
    const Deadline deadline;
    try {
      const Graph g = Graph::load(path);
      ++loaded;
      use(g);
    } catch (const ValueError&) {
      ++refused;
    } catch (const std::exception& e) {
      ADD_FAILURE() << "seed " << first + i << ": " << e.what();
    }
  }
  std::cout << loaded << " loaded, " << refused << " refused" << std::endl;
  EXPECT_GT(loaded, 10);
  EXPECT_GT(refused, 100);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace smolder
