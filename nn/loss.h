// Losses as modules with options: CrossEntropyLoss, MSELoss, BCEWithLogitsLoss, …
// Needs module_holder and options; each calls the function of its name in tensor/functions.h.
#pragma once

#include "nn/module_holder.h"
#include "nn/options.h"

namespace weft::nn {

// Each option struct stands twice: as the options of a module, and (…FuncOptions) of one call of nn::functional.
template <class Change>
struct ReductionOptionsOf {
  ReductionOptionsOf() = default;
  ReductionOptionsOf(Keyword reduction) : reduction_(reduction) {}  // NOLINT
  // kMean, kSum or kNone.
  WEFT_OPTION_OF(Change, Keyword, reduction, kMean)
};
template <class Change>
struct CrossEntropyOptionsOf {
  WEFT_OPTION_OF(Change, Tensor, weight, {})
  WEFT_OPTION_OF(Change, int64_t, ignore_index, -100)
  WEFT_OPTION_OF(Change, Keyword, reduction, kMean)
  WEFT_OPTION_OF(Change, double, label_smoothing, 0.0)
};
template <class Change>
struct NLLOptionsOf {
  WEFT_OPTION_OF(Change, Tensor, weight, {})
  WEFT_OPTION_OF(Change, int64_t, ignore_index, -100)
  WEFT_OPTION_OF(Change, Keyword, reduction, kMean)
};
template <class Change>
struct BCEWithLogitsOptionsOf {
  WEFT_OPTION_OF(Change, Tensor, weight, {})
  WEFT_OPTION_OF(Change, Tensor, pos_weight, {})
  WEFT_OPTION_OF(Change, Keyword, reduction, kMean)
};
template <class Change>
struct SmoothL1OptionsOf {
  WEFT_OPTION_OF(Change, Keyword, reduction, kMean)
  WEFT_OPTION_OF(Change, double, beta, 1.0)
};
template <class Change>
struct HuberOptionsOf {
  WEFT_OPTION_OF(Change, Keyword, reduction, kMean)
  WEFT_OPTION_OF(Change, double, delta, 1.0)
};
template <class Change>
struct KLDivOptionsOf {
  // kBatchMean too.
  WEFT_OPTION_OF(Change, Keyword, reduction, kMean)
  WEFT_OPTION_OF(Change, bool, log_target, false)
};
using MSELossOptions = ReductionOptionsOf<LiveOptions>;
using L1LossOptions = ReductionOptionsOf<LiveOptions>;
using CrossEntropyLossOptions = CrossEntropyOptionsOf<LiveOptions>;
using NLLLossOptions = NLLOptionsOf<LiveOptions>;
using BCEWithLogitsLossOptions = BCEWithLogitsOptionsOf<LiveOptions>;
using SmoothL1LossOptions = SmoothL1OptionsOf<LiveOptions>;
using HuberLossOptions = HuberOptionsOf<LiveOptions>;
using KLDivLossOptions = KLDivOptionsOf<LiveOptions>;

class MSELossImpl : public Module {
 public:
  explicit MSELossImpl(const MSELossOptions& o = {}) : options(o) {}
  Tensor forward(const Tensor& x, const Tensor& target, WEFT_HERE) {
    return mse_loss(x, target, options.reduction(), where);
  }
  MSELossOptions options;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(MSELoss);

class L1LossImpl : public Module {
 public:
  explicit L1LossImpl(const L1LossOptions& o = {}) : options(o) {}
  Tensor forward(const Tensor& x, const Tensor& target, WEFT_HERE) {
    return l1_loss(x, target, options.reduction(), where);
  }
  L1LossOptions options;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(L1Loss);

class SmoothL1LossImpl : public Module {
 public:
  explicit SmoothL1LossImpl(const SmoothL1LossOptions& o = {}) : options(o) {}
  Tensor forward(const Tensor& x, const Tensor& target, WEFT_HERE) {
    return smooth_l1_loss(x, target, options.reduction(), options.beta(), where);
  }
  SmoothL1LossOptions options;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(SmoothL1Loss);

class HuberLossImpl : public Module {
 public:
  explicit HuberLossImpl(const HuberLossOptions& o = {}) : options(o) {}
  Tensor forward(const Tensor& x, const Tensor& target, WEFT_HERE) {
    return huber_loss(x, target, options.reduction(), options.delta(), where);
  }
  HuberLossOptions options;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(HuberLoss);

class KLDivLossImpl : public Module {
 public:
  explicit KLDivLossImpl(const KLDivLossOptions& o = {}) : options(o) {}
  Tensor forward(const Tensor& x, const Tensor& target, WEFT_HERE) {
    return kl_div(x, target, options.reduction(), options.log_target(), where);
  }
  KLDivLossOptions options;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(KLDivLoss);

// Losses with class weights keep them as buffers, so that to(device) moves them.
class CrossEntropyLossImpl : public Module {
 public:
  explicit CrossEntropyLossImpl(const CrossEntropyLossOptions& options = {});
  Tensor forward(const Tensor& logits, const Tensor& target, WEFT_HERE) {
    return cross_entropy(logits, target, weight, options.reduction(), options.ignore_index(),
                         options.label_smoothing(), where);
  }
  CrossEntropyLossOptions options;
  Tensor weight;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(CrossEntropyLoss);

class NLLLossImpl : public Module {
 public:
  explicit NLLLossImpl(const NLLLossOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& target, WEFT_HERE) {
    return nll_loss(x, target, weight, options.reduction(), options.ignore_index(), where);
  }
  NLLLossOptions options;
  Tensor weight;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(NLLLoss);

class BCEWithLogitsLossImpl : public Module {
 public:
  explicit BCEWithLogitsLossImpl(const BCEWithLogitsLossOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& target, WEFT_HERE) {
    return binary_cross_entropy_with_logits(x, target, weight, pos_weight, options.reduction(), where);
  }
  BCEWithLogitsLossOptions options;
  Tensor weight, pos_weight;

 protected:
  void visit_facts(StateVisitor& visitor, const std::string& prefix) override;
};
WEFT_MODULE(BCEWithLogitsLoss);

}  // namespace weft::nn
