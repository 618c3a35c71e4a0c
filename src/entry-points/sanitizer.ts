/** cuda-streams/sanitizer: finds the wait that is missing between streams. */
import './shortcuts.js'
// So that CUDA_STREAMS_SANITIZER works in a bundle too.
import './sanitizer/sanitizer-variable.js'

export type { ReportedBuffer, ReportedOperation, ReportKind, SanitizerReport } from './sanitizer/findings.js'
export { SanitizerError, type SanitizerMode, type Suppression, type SuppressionUse } from './sanitizer/findings.js'
export {
  type DeclaredAccess,
  declareAccess,
  declareWait,
  Sanitizer,
  type SanitizerOptions,
  type SanitizerStatistics,
  sanitize,
} from './sanitizer/sanitizer.js'
export { nameStream } from './stream.js'
