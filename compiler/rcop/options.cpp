#include "options.h"

using namespace llvm;

namespace rcop {

cl::opt<bool> use_proofs("rcop-private", cl::init(true), cl::desc("prove that stores are private"));
cl::opt<bool> use_gathering("rcop-ia", cl::init(true), cl::desc("gather notes of affine stores out of loops"));
cl::opt<bool> use_redundancy("rcop-re", cl::init(true), cl::desc("drop notes that earlier ones cover"));
cl::opt<bool> breaks_stores("rcop-broken", cl::init(false), cl::Hidden, cl::desc("omit notes, for a test"));

} // namespace rcop
