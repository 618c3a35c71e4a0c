/** cuda-streams/timeline: records what ran when, and draws it. */
import './base/node-version.js'
// So that CUDA_STREAMS_TIMELINE works in a bundle too.
import './timeline/timeline-variable.js'

export { nameStream } from './stream.js'
export type { BindingKind } from './timeline/bindings.js'
export {
  type OperationMessage,
  type Publisher,
  type PublishOptions,
  publish,
  type SynchronizeMessage,
} from './timeline/channels.js'
export type { Calibration } from './timeline/event-records.js'
export type { OperationKind } from './timeline/kinds.js'
export { mergeTraces } from './timeline/merged-traces.js'
export type { DeviceSummary, Stall, StallKind, StreamSummary, TimelineSummary } from './timeline/summary.js'
export type { SvgOptions } from './timeline/svg.js'
export type { IdleGap, TimelineCall, TimelineOperation, TimelineStream } from './timeline/timeline.js'
export { type HtmlOptions, Recording, Timeline, type TimelineOptions } from './timeline/timeline.js'
export type { TraceEvent, TraceFile } from './timeline/trace-events.js'
