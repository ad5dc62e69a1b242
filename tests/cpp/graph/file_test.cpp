#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "smolder/core/safetensors.h"
#include "smolder/graph/graph.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/nn/modules.h"

namespace smolder {
namespace {

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class GraphFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("smolder-graph-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "graph.safetensors";
    const float data[] = {1, -2, 3, -4, 5, -6};
    x_ = Tensor::from_data(data, {2, 3}, DType::kFloat32);
    graph_ = capture([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{tanh(fc_(in[0]))}; }, {x_},
                     {.weights = fc_->state_dict(), .dynamic_shapes = {{{0, "batch"}}}});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// A file of that metadata and the weights there are.
  void put(const SafetensorsMetadata& metadata, const nn::Named<Tensor>& weights) const {
    std::vector<SafetensorsTensor> tensors;
    std::vector<BufferRef> memory;
    for (const auto& [name, t] : weights) {
      memory.push_back(t.detach().materialize());
      tensors.push_back({name, t.dtype(), t.shape(), memory.back()->data()});
    }
    write_safetensors(path_, tensors, metadata);
  }
  std::string refused() const {
    try {
      Graph::load(path_);
      return "nothing was thrown";
    } catch (const ValueError& e) {
      return e.what();
    }
  }

  std::filesystem::path folder_;
  std::string path_;
  nn::Linear fc_{3, 4};
  Tensor x_;
  Graph graph_;
};

TEST_F(GraphFile, WhatIsSavedIsLoaded) {
  graph_.set_structure("{\"a\": 1}");
  graph_.save(path_);
  const Graph again = Graph::load(path_);
  EXPECT_EQ(again.to_string(), graph_.to_string());
  EXPECT_EQ(again.structure(), graph_.structure());
  for (const Tensor& x : {x_, cat({x_, x_, x_}, 0)}) {
    EXPECT_EQ(again.run({x})[0].to_vector<float>(), graph_.run({x})[0].to_vector<float>());
  }
  const SafetensorsFile file(path_);  // which any reader of the format reads
  EXPECT_EQ(file.find("weight")->shape, (Dims{4, 3}));
  EXPECT_EQ(file.metadata().at("smolder.version"), "1");
}

TEST_F(GraphFile, WeightsMayBeElsewhere) {
  graph_.save(path_, {.weights = false});
  EXPECT_TRUE(SafetensorsFile(path_).entries().empty());
  const Graph bare = Graph::load(path_);
  EXPECT_FALSE(bare.weights()[0].second.defined());
  EXPECT_THROW(bare.run({x_}), RuntimeError);
  EXPECT_THROW(bare.save(path_), RuntimeError) << "there are none to save";
  const Graph bound = bare.bind(fc_->state_dict());
  EXPECT_EQ(bound.run({x_})[0].to_vector<float>(), graph_.run({x_})[0].to_vector<float>());
  const auto message = [&](const nn::Named<Tensor>& weights) {
    try {
      bare.bind(weights);
    } catch (const RuntimeError& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_SAYS(message({{"weight", fc_->weight}}), "missing: 'bias'");
  EXPECT_SAYS(message({{"weight", fc_->weight}, {"bias", fc_->bias}, {"other", x_}}), "unknown: 'other'");
  EXPECT_SAYS(message({{"weight", x_}, {"bias", fc_->bias}}), "'weight' is [2, 3] float32 where the graph has [4, 3]");
}

TEST_F(GraphFile, SaysWhatIsWrong) {
  graph_.save(path_);
  const SafetensorsMetadata good = SafetensorsFile(path_).metadata();
  const nn::Named<Tensor> weights = fc_->state_dict();
  const auto with = [&](const char* key, const std::string& value) {
    SafetensorsMetadata m = good;
    m[key] = value;
    put(m, weights);
    return refused();
  };
  const auto edited = [&](const std::string& old, const std::string& fresh) {
    std::string text = good.at("smolder.graph");
    const size_t at = text.find(old);
    EXPECT_NE(at, std::string::npos) << old << " in " << text;
    return with("smolder.graph", text.replace(at, old.size(), fresh));
  };
  put({}, weights);
  EXPECT_SAYS(refused(), "metadata has no smolder.version");
  EXPECT_SAYS(with("smolder.version", "2"), "version '2', and only version 1 is known");
  EXPECT_SAYS(with("smolder.graph.body", ""), "sub-graph 'smolder.graph.body'");
  EXPECT_SAYS(with("smolder.graph", ""), "line 1: expected `smolder.graph 1`");
  EXPECT_SAYS(edited("graph 1", "graph 7"), "version `7` of the form");
  EXPECT_SAYS(edited("tanh", "tanhh"), "there is no op called 'tanhh'");
  EXPECT_SAYS(edited("tanh(%3)", "tanh(%9)"), "%9 is not defined before its use");
  EXPECT_SAYS(edited("float32[4, 3]", "float32[4, 5]"), "(linear): linear: mat1 and mat2");
  EXPECT_SAYS(edited("= tanh(%3) : float32[s0, 4]", "= tanh(%3) : float64[s0, 4]"), "(tanh)");
  EXPECT_SAYS(edited("= tanh(%3) : float32[s0, 4]", "= tanh(%3) : float32[2, 4]"), "at other sizes");
  EXPECT_SAYS(edited("leaf(number=1", "leaf(number=7"), "there is no input or weight 7");
  EXPECT_SAYS(edited("leaf(number=1", "leaf(number=0"), "is there twice");
  EXPECT_SAYS(edited("weight \"bias\"", "weight \"other\""), "weight 'other' is not there");
  EXPECT_SAYS(edited("output \"output_0\"\n", ""), "0 outputs have names, 1 are returned");
  put(good, {{"weight", fc_->weight}, {"bias", x_}});
  EXPECT_SAYS(refused(), "weight 'bias' is F32 [2, 3], the graph has it as float32 [4]");
  put(good, {{"weight", fc_->weight.to(DType::kFloat64)}, {"bias", fc_->bias}});
  EXPECT_SAYS(refused(), "weight 'weight' is F64");
  put(good, {{"weight", fc_->weight}, {"bias", fc_->bias}, {"more", x_}});
  EXPECT_SAYS(refused(), "there are 3 tensors, the graph has 2 weights");
}

}  // namespace
}  // namespace smolder
