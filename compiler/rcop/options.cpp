#include "options.h"

using namespace llvm;

namespace rcop {

cl::opt<bool> use_proofs("rcop-private", cl::init(true), cl::desc("prove that stores are private"));
cl::opt<bool> use_gathering("rcop-ia", cl::init(true), cl::desc("gather notes of affine stores out of loops"));
cl::opt<bool> use_redundancy("rcop-re", cl::init(true), cl::desc("drop notes that earlier ones cover"));
cl::opt<bool> checks_loads("rcop-udsm", cl::init(false), cl::desc("check loads and stores before they happen"));
cl::opt<bool> breaks_stores("rcop-broken", cl::init(false), cl::Hidden, cl::desc("omit notes, for a test"));

} // namespace rcop
