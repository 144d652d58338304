// Losses: how far predictions are from targets, with PyTorch's reductions, class weights and ignored targets.
// Place: composites of pointwise ops, reductions and gather; register.cpp calls register_loss_ops.
#include <algorithm>

#include "tensor/base/log.h"
#include "tensor/ops/check.h"
#include "tensor/ops/entry.h"
#include "tensor/ops/register.h"

namespace weft {
namespace {

enum class Reduction : uint8_t { None, Mean, Sum, BatchMean };

Reduction parse_reduction(std::string_view text, const char* op, SourceLocation where,
                          bool batchmean = false) {
  if (text == "mean") return Reduction::Mean;
  if (text == "none") return Reduction::None;
  if (text == "sum") return Reduction::Sum;
  if (text == "batchmean" && batchmean) return Reduction::BatchMean;
  WEFT_CHECK_AT(where, false, op, ": reduction is \"", text, "\"; it may be \"none\", \"mean\"",
                batchmean ? ", \"batchmean\"" : "", " or \"sum\"");
  return Reduction::None;
}

Tensor reduce(const Tensor& loss, Reduction how, SourceLocation where) {
  switch (how) {
    case Reduction::None: return loss;
    case Reduction::Mean: return mean(loss, {}, false, {}, where);
    default: return sum(loss, {}, false, {}, where);
  }
}

// Sizes that differ broadcast, which is seldom what a loss means: [64, 1] against [64] makes [64, 64].
void warn_if_broadcast(const Tensor& x, const Tensor& target, const char* op, SourceLocation where) {
  if (x.dim() == target.dim() && x.sizes() == target.sizes()) return;
  const std::string place = to_string(where);
  warn_once(
      std::string(op) + place,
      detail::concat(op, ": x ", x.sizes(), " and target ", target.sizes(),
                     " have different sizes and are broadcast; give both the same sizes if that is not meant",
                     place.empty() ? "" : " (", place, place.empty() ? "" : ")"));
}

Tensor difference(const Tensor& x, const Tensor& target, const char* op, SourceLocation where) {
  warn_if_broadcast(x, target, op, where);
  return sub(x, target, 1, where);
}

// ---- Class targets --------------------------------------------------------------------------------------------------

struct ClassLoss {
  const char* op;
  const char* input;  // what the first argument is called
  const Tensor& x;    // log-probabilities
  const Tensor& target;
  const Tensor& weight;
  Reduction how;
  int64_t ignore_index;
  SourceLocation where;

  int64_t class_dim() const { return x.dim() == 1 ? 0 : 1; }
  Sym classes() const { return x.size(class_dim()); }
};

void check_class_weight(const ClassLoss& l) {
  if (!l.weight.defined()) return;
  WEFT_CHECK_AT(l.where, l.weight.dim() == 1 && l.weight.size(0) == l.classes(), l.op, ": weight has sizes ",
                l.weight.sizes(), ", but there are ", l.classes(), " classes; one weight for each is needed");
}
// The weight times values of x's sizes, along the classes.
Tensor weighted(const ClassLoss& l, const Tensor& values) {
  if (!l.weight.defined()) return values;
  Sizes shape(static_cast<size_t>(l.x.dim()), Sym::from_int(1));
  shape[static_cast<size_t>(l.class_dim())] = l.classes();
  return mul(values, reshape(l.weight, SymList(shape), l.where), l.where);
}

void check_class_shapes(const ClassLoss& l) {
  WEFT_CHECK_AT(l.where, l.x.dim() >= 1, l.op, ": ", l.input,
                " has no dimension; [classes] or [batch, classes, …] is needed");
  WEFT_CHECK_AT(l.where, is_integral(l.target.dtype()), l.op, ": target is ", l.target.dtype(), " of sizes ",
                l.target.sizes(), " for ", l.input, " ", l.x.sizes(),
                "; class numbers must be integers (int64), one for each row");
  bool fits = l.target.dim() == l.x.dim() - 1;
  for (int64_t d = 0; fits && d < l.target.dim(); ++d)
    fits = l.target.size(d) == l.x.size(d == 0 ? 0 : d + 1);
  if (!fits) {
    Sizes right;
    for (int64_t d = 0; d < l.x.dim(); ++d)
      if (d != l.class_dim()) right.push_back(l.x.size(d));
    WEFT_CHECK_AT(l.where, false, l.op, ": target has sizes ", l.target.sizes(), ", but ", l.input, " ",
                  l.x.sizes(), " with ", l.classes(), " classes in dimension ", l.class_dim(),
                  " needs a target of sizes ", right);
  }
  check_class_weight(l);
}

// A class that does not exist, met where gather picks the classes along dimension 0 or 1.
std::string say_class(const char* op, const char* input, const Call& pick, int64_t place, int64_t value) {
  const Tensor &x = pick.tensor(0), &index = pick.tensor(1);
  const size_t dim = x.dim() == 1 ? 0 : 1;
  Sizes at(static_cast<size_t>(index.dim()), Sym::from_int(0));
  for (size_t d = at.size(); d-- > 0; place /= int_sizes(index)[d])
    at[d] = Sym::from_int(place % int_sizes(index)[d]);
  if (dim < at.size()) at.erase(at.begin() + dim);
  std::string where;
  if (at.size() == 1) where = detail::concat(" at row ", at[0]);
  if (at.size() > 1) where = detail::concat(" at ", at);
  return detail::concat(op, ": target holds class ", value, where, ", but ", input, " ", x.sizes(),
                        " have classes 0 to ", int_sizes(x)[dim] - 1,
                        ".\n  Classes count from 0; rows that are to be left out hold ignore_index.");
}
// What the host sees in the targets of a real tensor; a trace sees nothing. Of classes that do not exist gather tells.
struct TargetFacts {
  bool known = false;
  bool any_ignored = false;
};

TargetFacts look_at_classes(const ClassLoss& l) {
  if (current_trace() != nullptr || !l.target.is_cpu()) return {};
  const int64_t count = int_numel(l.target);
  std::vector<int64_t> converted;
  const int64_t* values = nullptr;
  if (l.target.dtype() == DType::Int64 && l.target.is_contiguous()) {
    values = data_of<int64_t>(l.target);
  } else {
    converted = l.target.to_vector<int64_t>();
    values = converted.data();
  }
  return {true, std::find(values, values + count, l.ignore_index) != values + count};
}

// What each row contributes before the reduction, and what a mean divides by.
struct Rows {
  Tensor target;   // int64, ignored ones replaced by class 0
  Tensor valid;    // bool; undefined if every target counts
  Tensor picked;   // what x holds for the targets
  Tensor weights;  // of the targets' classes, 0 where ignored; undefined without weights
};

Rows make_rows(const ClassLoss& l) {
  const SourceLocation where = l.where;
  Rows rows;
  const TargetFacts facts = look_at_classes(l);
  rows.target = l.target.dtype() == DType::Int64 ? l.target : l.target.to(DType::Int64, false, false, where);
  if (!facts.known || facts.any_ignored) {
    rows.valid = ne(rows.target, l.ignore_index, where);
    rows.target = weft::where(rows.valid, rows.target, 0, where);
  }
  // First the classes, so that one which does not exist is met here.
  const int64_t dim = l.class_dim();
  rows.picked = squeeze(gather(l.x, dim, unsqueeze(rows.target, dim, where), where), dim, where);
  if (l.weight.defined()) {
    const Tensor flat = rows.target.dim() == 1 ? rows.target : reshape(rows.target, {-1}, where);
    rows.weights = index_select(l.weight, 0, flat, where);
    if (rows.target.dim() != 1) rows.weights = reshape(rows.weights, SymList(rows.target.sizes()), where);
    if (rows.valid.defined()) rows.weights = weft::where(rows.valid, rows.weights, 0, where);
  }
  return rows;
}

// The mean over the rows that count: their weights are the measure. All ignored gives NaN, as 0/0 does.
Tensor mean_of_rows(const Tensor& total, const Rows& rows, SourceLocation where) {
  if (rows.weights.defined()) return div(total, sum(rows.weights, {}, false, {}, where), {}, where);
  if (rows.valid.defined()) return div(total, sum(rows.valid, {}, false, {}, where), {}, where);
  return div(total, rows.target.numel(), {}, where);
}

// The losses of the rows, reduced; those of ignored rows are 0.
Tensor reduce_rows(const ClassLoss& l, const Rows& rows, Tensor loss) {
  if (rows.valid.defined()) loss = where(rows.valid, loss, 0, l.where);
  if (l.how == Reduction::None) return loss;
  const Tensor total = sum(loss, {}, false, {}, l.where);
  return l.how == Reduction::Sum ? total : mean_of_rows(total, rows, l.where);
}

Tensor nll_of_rows(const ClassLoss& l, const Rows& rows) {
  const SourceLocation where = l.where;
  Tensor loss = neg(rows.picked, where);
  if (rows.weights.defined()) loss = mul(loss, rows.weights, where);
  return reduce_rows(l, rows, std::move(loss));
}

// The part of label smoothing that spreads over all classes: -Σ_c w_c · log p_c.
Tensor smooth_of_rows(const ClassLoss& l, const Rows& rows) {
  const SourceLocation where = l.where;
  return reduce_rows(l, rows, neg(sum(weighted(l, l.x), {l.class_dim()}, false, {}, where), where));
}

// Targets that are probabilities over the classes.
Tensor soft_cross_entropy(const ClassLoss& l, double label_smoothing) {
  const SourceLocation where = l.where;
  WEFT_CHECK_AT(l.where, l.x.sizes() == l.target.sizes(), l.op, ": target ", describe(l.target), " and ",
                l.input, " ", l.x.sizes(),
                " have one rank, so that the target must hold probabilities of the same sizes");
  WEFT_CHECK_AT(l.where, is_floating(l.target.dtype()), l.op, ": target is ", l.target.dtype(),
                " and has the sizes of ", l.input, ", ", l.x.sizes(),
                "; probabilities must be floating, and class numbers have no class dimension");
  WEFT_CHECK_AT(l.where, l.ignore_index < 0, l.op, ": ignore_index is ", l.ignore_index,
                ", but the target holds probabilities; it is for class numbers only");
  const int64_t dim = l.class_dim();
  Tensor target = l.target;
  if (label_smoothing > 0)
    target = add(mul(target, 1 - label_smoothing, where), label_smoothing / l.classes(), 1, where);
  check_class_weight(l);
  const Tensor product = weighted(l, mul(l.x, target, where));
  if (l.how == Reduction::None) return neg(sum(product, {dim}, false, {}, where), where);
  const Tensor total = neg(sum(product, {}, false, {}, where), where);
  if (l.how == Reduction::Sum) return total;
  Sym rows = Sym::from_int(1);
  for (int64_t d = 0; d < l.x.dim(); ++d)
    if (d != dim) rows = rows * l.x.size(d);
  return div(total, rows, {}, where);
}

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target, std::string_view reduction, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("mse_loss"), where, {x, target});
  const Reduction how = parse_reduction(reduction, "mse_loss", where);
  return reduce(square(difference(x, target, "mse_loss", where), where), how, where);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, std::string_view reduction, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("l1_loss"), where, {x, target});
  const Reduction how = parse_reduction(reduction, "l1_loss", where);
  return reduce(abs(difference(x, target, "l1_loss", where), where), how, where);
}

// With z = |x - target| and c = min(z, beta): c/beta · (z - c/2), which is z²/(2·beta) below beta and z - beta/2 above.
// Unlike a where over both formulas it gives a finite gradient for an infinite z.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, std::string_view reduction, double beta,
                      SourceLocation where) {
  const CompositeScope scope(WEFT_OP("smooth_l1_loss"), where, {x, target});
  const Reduction how = parse_reduction(reduction, "smooth_l1_loss", where);
  WEFT_CHECK_AT(where, beta >= 0, "smooth_l1_loss: beta is ", beta, "; it must not be negative");
  const Tensor z = abs(difference(x, target, "smooth_l1_loss", where), where);
  if (beta == 0) return reduce(z, how, where);
  const Tensor c = minimum(z, beta, where);
  return reduce(mul(div(c, beta, {}, where), sub(z, c, 0.5, where), where), how, where);
}

// As smooth_l1_loss, times delta: z²/2 below delta and delta · (z - delta/2) above.
Tensor huber_loss(const Tensor& x, const Tensor& target, std::string_view reduction, double delta,
                  SourceLocation where) {
  const CompositeScope scope(WEFT_OP("huber_loss"), where, {x, target});
  const Reduction how = parse_reduction(reduction, "huber_loss", where);
  WEFT_CHECK_AT(where, delta > 0, "huber_loss: delta is ", delta, "; it must be positive");
  const Tensor z = abs(difference(x, target, "huber_loss", where), where);
  const Tensor c = minimum(z, delta, where);
  return reduce(mul(c, sub(z, c, 0.5, where), where), how, where);
}

Tensor kl_div(const Tensor& x, const Tensor& target, std::string_view reduction, bool log_target,
              SourceLocation where) {
  const CompositeScope scope(WEFT_OP("kl_div"), where, {x, target});
  const Reduction how = parse_reduction(reduction, "kl_div", where, true);
  const Tensor loss = log_target ? mul(exp(target, where), sub(target, x, 1, where), where)
                                 : sub(xlogy(target, target, where), mul(target, x, where), 1, where);
  const Tensor reduced = reduce(loss, how, where);
  if (how != Reduction::BatchMean || x.dim() == 0) return reduced;
  return div(reduced, x.size(0), {}, where);
}

// (1 - t) · x - (1 + (p - 1) · t) · log σ(x), with p the weight of positive targets.
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight,
                                        const Tensor& pos_weight, std::string_view reduction,
                                        SourceLocation where) {
  const CompositeScope scope(WEFT_OP("binary_cross_entropy_with_logits"), where,
                             {x, target, weight, pos_weight});
  const Reduction how = parse_reduction(reduction, "binary_cross_entropy_with_logits", where);
  WEFT_CHECK_AT(where, x.dim() == target.dim() && x.sizes() == target.sizes(),
                "binary_cross_entropy_with_logits: target has sizes ", target.sizes(), " and x ", x.sizes(),
                "; both must be equal");
  Tensor log_probability = log_sigmoid(x, where);
  if (pos_weight.defined()) {
    const Tensor scale = add(mul(sub(pos_weight, 1, 1, where), target, where), 1, 1, where);
    log_probability = mul(scale, log_probability, where);
  }
  Tensor loss = sub(mul(sub(1, target, 1, where), x, where), log_probability, 1, where);
  if (weight.defined()) loss = mul(loss, weight, where);
  return reduce(loss, how, where);
}

Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight, std::string_view reduction,
                int64_t ignore_index, SourceLocation where) {
  const CompositeScope scope(WEFT_OP("nll_loss"), where, {x, target, weight});
  const ClassLoss loss{"nll_loss",
                       "log-probabilities",
                       x,
                       target,
                       weight,
                       parse_reduction(reduction, "nll_loss", where),
                       ignore_index,
                       where};
  WEFT_CHECK_AT(where, is_floating(x.dtype()), "nll_loss: log-probabilities are ", x.dtype(),
                "; they must be floating");
  check_class_shapes(loss);
  return nll_of_rows(loss, make_rows(loss));
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& weight,
                     std::string_view reduction, int64_t ignore_index, double label_smoothing,
                     SourceLocation where) {
  const CompositeScope scope(WEFT_OP("cross_entropy"), where, {logits, target, weight});
  const Reduction how = parse_reduction(reduction, "cross_entropy", where);
  WEFT_CHECK_AT(where, label_smoothing >= 0 && label_smoothing <= 1, "cross_entropy: label_smoothing is ",
                label_smoothing, "; it must be between 0 and 1");
  WEFT_CHECK_AT(where, is_floating(logits.dtype()), "cross_entropy: logits are ", logits.dtype(),
                "; they must be floating");
  const bool soft = logits.dim() > 0 && logits.dim() == target.dim();
  if (!soft)
    check_class_shapes({"cross_entropy", "logits", logits, target, weight, how, ignore_index, where});
  const Tensor log_p = log_softmax(logits, logits.dim() == 1 ? 0 : 1, {}, where);
  const ClassLoss loss{"cross_entropy", "logits", log_p, target, weight, how, ignore_index, where};
  if (soft) return soft_cross_entropy(loss, label_smoothing);
  const Rows rows = make_rows(loss);
  const Tensor hard = nll_of_rows(loss, rows);
  if (label_smoothing == 0) return hard;
  return add(mul(hard, 1 - label_smoothing, where),
             mul(smooth_of_rows(loss, rows), label_smoothing / loss.classes(), where), 1, where);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, SourceLocation where) {
  return cross_entropy(logits, target, Tensor(), "mean", -100, 0.0, where);
}

void register_loss_ops(OpTable& table) {
  composite(table, "mse_loss(Tensor x, Tensor target, str reduction='mean') -> Tensor", &mse_loss);
  composite(table, "l1_loss(Tensor x, Tensor target, str reduction='mean') -> Tensor", &l1_loss);
  composite(table, "smooth_l1_loss(Tensor x, Tensor target, str reduction='mean', float beta=1.0) -> Tensor",
            &smooth_l1_loss);
  composite(table, "huber_loss(Tensor x, Tensor target, str reduction='mean', float delta=1.0) -> Tensor",
            &huber_loss);
  composite(table, "kl_div(Tensor x, Tensor target, str reduction='mean', bool log_target=False) -> Tensor",
            &kl_div)
      .samples({.low = 0.1, .high = 0.9, .specials = false});
  composite(table,
            "binary_cross_entropy_with_logits(Tensor x, Tensor target, Tensor? weight=None, "
            "Tensor? pos_weight=None, str reduction='mean') -> Tensor",
            &binary_cross_entropy_with_logits);
  composite(table,
            "nll_loss(Tensor x, Tensor target, Tensor? weight=None, str reduction='mean', "
            "int ignore_index=-100) -> Tensor",
            &nll_loss)
      .index_error([](const Call& pick, int64_t place, int64_t value) {
        return say_class("nll_loss", "log-probabilities", pick, place, value);
      })
      .samples({.calls = {"x=[3,5] target=[3]:i64<5", "x=[3,5] target=[3]:i64<5 weight=[5] reduction=sum",
                          "x=[5] target=[]:i64<5", "x=[2,5] target=[2]:i64<5 reduction=none"}});
  composite(table,
            "cross_entropy(Tensor logits, Tensor target, Tensor? weight=None, str reduction='mean', "
            "int ignore_index=-100, float label_smoothing=0.0) -> Tensor",
            static_cast<Tensor (*)(const Tensor&, const Tensor&, const Tensor&, std::string_view, int64_t,
                                   double, SourceLocation)>(&cross_entropy))
      .index_error([](const Call& pick, int64_t place, int64_t value) {
        return say_class("cross_entropy", "logits", pick, place, value);
      })
      .samples(
          {.specials = false,
           .calls = {"logits=[3,5] target=[3]:i64<5", "logits=[3,5] target=[3]:i64<5 label_smoothing=0.1",
                     "logits=[2,5,3] target=[2,3]:i64<5 reduction=sum", "logits=[3,5] target=[3,5]",
                     "logits=[3,5] target=[3]:i64<5 weight=[5] reduction=none"}});
}

}  // namespace weft
