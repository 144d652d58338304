// Layers that map features: Identity, Linear, Flatten, Embedding.
// Needs module_holder and options.
#pragma once

#include "nn/module_holder.h"
#include "nn/options.h"

namespace weft::nn {

// x -> x
class IdentityImpl : public Module {
 public:
  Tensor forward(const Tensor& x) { return x; }
};
WEFT_MODULE(Identity);

struct LinearOptions {
  LinearOptions(int64_t in_features, int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}
  WEFT_OPTION(int64_t, in_features, 0)
  WEFT_OPTION(int64_t, out_features, 0)
  WEFT_OPTION(bool, bias, true)
};

// x·weightᵀ + bias.
// Shapes: x [*, in], weight [out, in], bias [out] -> [*, out].  Errors: x whose last dimension is not `in`.
// Initial values: uniform within ±1/√in.  Source: torch.nn.Linear.
class LinearImpl : public Cloneable<LinearImpl> {
 public:
  LinearImpl(int64_t in_features, int64_t out_features)
      : LinearImpl(LinearOptions(in_features, out_features)) {}
  explicit LinearImpl(const LinearOptions& options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& x, WEFT_HERE);
  std::string describe() const override;

  LinearOptions options;
  Tensor weight, bias;
};
WEFT_MODULE(Linear);

struct FlattenOptions {
  WEFT_OPTION(int64_t, start_dim, 1)
  WEFT_OPTION(int64_t, end_dim, -1)
};

// Joins the dimensions from start_dim to end_dim; by default all but the batch.
class FlattenImpl : public Module {
 public:
  explicit FlattenImpl(const FlattenOptions& o = {}) : options(o) {}
  Tensor forward(const Tensor& x, WEFT_HERE);
  std::string describe() const override;

  FlattenOptions options;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(Flatten);

struct EmbeddingOptions {
  EmbeddingOptions(int64_t num_embeddings, int64_t embedding_dim)
      : num_embeddings_(num_embeddings), embedding_dim_(embedding_dim) {}
  WEFT_OPTION(int64_t, num_embeddings, 0)
  WEFT_OPTION(int64_t, embedding_dim, 0)
  WEFT_OPTION(std::optional<int64_t>, padding_idx, {})
};

// Rows of a table by number. The row padding_idx starts as zeros and gets no gradient.
// Shapes: index [*] of integers, weight [num, dim] -> [*, dim].  Errors: IndexError for a number out of range.
// Initial values: N(0, 1).  Source: torch.nn.Embedding.
class EmbeddingImpl : public Cloneable<EmbeddingImpl> {
 public:
  EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim)
      : EmbeddingImpl(EmbeddingOptions(num_embeddings, embedding_dim)) {}
  explicit EmbeddingImpl(const EmbeddingOptions& options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& index, WEFT_HERE);
  std::string describe() const override;

  EmbeddingOptions options;
  Tensor weight;
};
WEFT_MODULE(Embedding);

}  // namespace weft::nn
