#include "plan/plan.h"

namespace xyntra {

const char* name_of(Exactness exactness) {
  switch (exactness) {
    case Exactness::Exact: return "exact";
    case Exactness::Reassociating: return "reassociating";
    case Exactness::PrecisionChanging: return "precision-changing";
  }
  return "";
}

const char* name_of(Hero hero) {
  switch (hero) {
    case Hero::None: return "none";
    case Hero::Movement: return "movement";
    case Hero::RowReduction: return "row reduction";
    case Hero::Contraction: return "contraction";
    case Hero::Attention: return "attention";
    case Hero::Window: return "window";
    case Hero::Scan: return "scan";
    case Hero::Scatter: return "scatter";
    case Hero::Host: return "host";
  }
  return "";
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Fused: return "fused";
    case Verdict::Inlined: return "inlined";
    case Verdict::Free: return "free";
    case Verdict::Materialised: return "materialised";
  }
  return "";
}

}  // namespace xyntra
