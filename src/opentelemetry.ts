/** The door to OpenTelemetry: operations as spans. */
export { type TraceOptions, traceOperations } from './timeline/spans.js'
