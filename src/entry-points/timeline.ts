/** cuda-streams/timeline: records what ran when, and draws it. */
import '../foundation/base/node-version.js'
// So that CUDA_STREAMS_TIMELINE works in a bundle too.
import '../tools/timeline/timeline-variable.js'

export { nameStream } from '../core/stream.js'
export type { BindingKind } from '../tools/timeline/bindings.js'
export {
  type OperationMessage,
  type Publisher,
  type PublishOptions,
  publish,
  type SynchronizeMessage,
} from '../tools/timeline/channels.js'
export type { Calibration } from '../tools/timeline/event-records.js'
export type { OperationKind } from '../tools/timeline/kinds.js'
export { mergeTraces } from '../tools/timeline/merged-traces.js'
export type {
  DeviceSummary,
  PredictedPart,
  Stall,
  StallKind,
  StreamSummary,
  TimelineSummary,
} from '../tools/timeline/summary.js'
export type { SvgOptions } from '../tools/timeline/svg.js'
export type { IdleGap, TimelineCall, TimelineOperation, TimelineStream } from '../tools/timeline/timeline.js'
export { type HtmlOptions, Timeline, type TimelineOptions, TimelineSession } from '../tools/timeline/timeline.js'
export type { TraceEvent, TraceFile } from '../tools/timeline/trace-events.js'
