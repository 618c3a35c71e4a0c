/** cuda-streams/opentelemetry: operations as spans. */
export { type TraceOptions, traceOperations } from './timeline/spans.js'
