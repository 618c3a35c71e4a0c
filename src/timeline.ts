/** cuda-streams/timeline: records what ran when, and draws it. */
// So that CUDA_STREAMS_TIMELINE works in a bundle too.
import './timeline/whole-process.js'

export { nameStream } from './stream.js'
export {
  type OperationMessage,
  type Publisher,
  type PublishOptions,
  publish,
  type SynchronizeMessage,
} from './timeline/channels.js'
export type { BindingKind } from './timeline/gap.js'
export type { OperationKind } from './timeline/kinds.js'
export type { Calibration } from './timeline/meter.js'
export type { IdleGap, TimelineCall, TimelineOperation, TimelineStream } from './timeline/operations.js'
export type { DeviceSummary, HoldUp, HoldUpKind, StreamSummary, TimelineSummary } from './timeline/summary.js'
export type { SvgOptions } from './timeline/svg.js'
export { type HtmlOptions, Recording, Timeline, type TimelineOptions } from './timeline/timeline.js'
export type { TraceEvent, TraceFile } from './timeline/trace-events.js'
