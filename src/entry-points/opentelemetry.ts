/** cuda-streams/opentelemetry: operations as spans. */
import './base/node-version.js'

export { type TraceOptions, traceOperations } from './timeline/spans.js'
