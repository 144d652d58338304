// Identity, Linear, Flatten, Embedding.
// Place: the out-of-line half of nn/linear.h.
#include "nn/linear.h"

#include <cmath>

#include "autograd/grad_mode.h"
#include "nn/init.h"

namespace weft::nn {

// ---- Linear ---------------------------------------------------------------------------------------------------------

LinearImpl::LinearImpl(const LinearOptions& o) : options(o) { reset(); }

void LinearImpl::reset() {
  const int64_t in = options.in_features(), out = options.out_features();
  WEFT_CHECK(in >= 0 && out >= 0, "Linear: ", in, " input and ", out,
             " output features are asked for; neither may be negative");
  weight = register_parameter("weight", empty({out, in}));
  if (options.bias()) bias = register_parameter("bias", empty({out}));
  else bias = register_parameter("bias", {}, false);
  reset_parameters();
}

void LinearImpl::reset_parameters() {
  // He's rule with the slope √5 gives the bound 1/√in.
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const int64_t fan_in = weight.size(1);
  const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  init::uniform_(bias, -bound, bound);
}

Tensor LinearImpl::forward(const Tensor& x, SourceLocation where) {
  if (x.dim() == 0 || x.size(-1) != weight.size(1)) {
    Error error(
        weft::detail::concat("Linear: x ", x.sizes(), " has ",
                             x.dim() == 0 ? std::string("no dimension") : weft::detail::concat(x.size(-1)),
                             " in its last dimension, but the layer takes ", weight.size(1),
                             " input features (weight ", weight.sizes(), ")"));
    error.add_place(where);
    throw error;
  }
  return linear(x, weight, bias, where);
}

std::string LinearImpl::describe() const {
  return weft::detail::concat("Linear(in_features=", options.in_features(),
                              ", out_features=", options.out_features(),
                              ", bias=", options.bias() ? "true" : "false", ")");
}

// ---- Flatten --------------------------------------------------------------------------------------------------------

Tensor FlattenImpl::forward(const Tensor& x, SourceLocation where) {
  return flatten(x, options.start_dim(), options.end_dim(), where);
}

std::string FlattenImpl::describe() const {
  return weft::detail::concat("Flatten(start_dim=", options.start_dim(), ", end_dim=", options.end_dim(),
                              ")");
}

void FlattenImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".start_dim", static_cast<double>(options.start_dim()));
  visitor.fact(prefix + ".end_dim", static_cast<double>(options.end_dim()));
}

// ---- Embedding ------------------------------------------------------------------------------------------------------

EmbeddingImpl::EmbeddingImpl(const EmbeddingOptions& o) : options(o) { reset(); }

void EmbeddingImpl::reset() {
  const int64_t count = options.num_embeddings();
  WEFT_CHECK(count >= 0 && options.embedding_dim() >= 0, "Embedding: ", count, " rows of ",
             options.embedding_dim(), " are asked for; neither may be negative");
  if (const auto padding = options.padding_idx()) {
    WEFT_CHECK(*padding >= -count && *padding < count, "Embedding: padding_idx is ", *padding,
               ", but the table has rows 0 to ", count - 1);
    if (*padding < 0) options.padding_idx(*padding + count);
  }
  weight = register_parameter("weight", empty({count, options.embedding_dim()}));
  reset_parameters();
}

void EmbeddingImpl::reset_parameters() {
  init::normal_(weight);
  if (const auto padding = options.padding_idx()) {
    const NoGradGuard no_grad;
    weight.select(0, *padding).fill_(0);
  }
}

Tensor EmbeddingImpl::forward(const Tensor& index, SourceLocation where) {
  const Tensor rows = embedding(weight, index, where);
  if (!options.padding_idx()) return rows;
  // The padding row takes part as a constant: its value is read, its gradient is cut.
  const Tensor is_padding = unsqueeze(eq(index, *options.padding_idx(), where), -1, where);
  return weft::where(is_padding, rows.detach(where), rows, where);
}

std::string EmbeddingImpl::describe() const {
  std::string text =
      weft::detail::concat("Embedding(", options.num_embeddings(), ", ", options.embedding_dim());
  if (const auto padding = options.padding_idx()) text += weft::detail::concat(", padding_idx=", *padding);
  return text + ")";
}

}  // namespace weft::nn
