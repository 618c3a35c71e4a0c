/** cuda-streams/sanitizer: finds the wait that is missing between streams. */
import '../core/shortcuts.js'
// So that CUDA_STREAMS_SANITIZER works in a bundle too.
import '../tools/sanitizer/sanitizer-variable.js'

export { nameStream } from '../core/stream.js'
export type { ReportedBuffer, ReportedOperation, ReportKind, SanitizerReport } from '../tools/sanitizer/findings.js'
export {
  SanitizerError,
  type SanitizerMode,
  type Suppression,
  type SuppressionUse,
} from '../tools/sanitizer/findings.js'
export {
  type DeclaredAccess,
  declareAccess,
  declareWait,
  Sanitizer,
  type SanitizerOptions,
  type SanitizerStatistics,
  sanitize,
} from '../tools/sanitizer/sanitizer.js'
