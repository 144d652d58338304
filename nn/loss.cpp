// Losses as modules.
// Place: the out-of-line half of nn/loss.h.
#include "nn/loss.h"

namespace weft::nn {
namespace {

// The reduction as a number that a compiled function can compare.
double fact_of(Keyword reduction) {
  return reduction == kNone ? 0 : reduction == kMean ? 1 : reduction == kSum ? 2 : 3;
}

}  // namespace

void MSELossImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".reduction", fact_of(options.reduction()));
}
void L1LossImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".reduction", fact_of(options.reduction()));
}
void SmoothL1LossImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".reduction", fact_of(options.reduction()));
  visitor.fact(prefix + ".beta", options.beta());
}
void HuberLossImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".reduction", fact_of(options.reduction()));
  visitor.fact(prefix + ".delta", options.delta());
}
void KLDivLossImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".reduction", fact_of(options.reduction()));
  visitor.fact(prefix + ".log_target", options.log_target());
}

CrossEntropyLossImpl::CrossEntropyLossImpl(const CrossEntropyLossOptions& o) : options(o) {
  weight = register_buffer("weight", options.weight());
}
void CrossEntropyLossImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".reduction", fact_of(options.reduction()));
  visitor.fact(prefix + ".ignore_index", static_cast<double>(options.ignore_index()));
  visitor.fact(prefix + ".label_smoothing", options.label_smoothing());
}

NLLLossImpl::NLLLossImpl(const NLLLossOptions& o) : options(o) {
  weight = register_buffer("weight", options.weight());
}
void NLLLossImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".reduction", fact_of(options.reduction()));
  visitor.fact(prefix + ".ignore_index", static_cast<double>(options.ignore_index()));
}

BCEWithLogitsLossImpl::BCEWithLogitsLossImpl(const BCEWithLogitsLossOptions& o) : options(o) {
  weight = register_buffer("weight", options.weight());
  pos_weight = register_buffer("pos_weight", options.pos_weight());
}
void BCEWithLogitsLossImpl::visit_facts(StateVisitor& visitor, const std::string& prefix) {
  visitor.fact(prefix + ".reduction", fact_of(options.reduction()));
}

}  // namespace weft::nn
