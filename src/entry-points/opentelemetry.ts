/** cuda-streams/opentelemetry: operations as spans. */
import '../foundation/base/node-version.js'

export { type TraceOptions, traceOperations } from '../tools/timeline/spans.js'
