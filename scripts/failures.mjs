// A reporter that prints each test that failed as a line of JSON, and nothing else: `node scripts/test.mjs --reporter=failures`.
// biome-ignore lint/style/noDefaultExport: it is how Node loads a reporter.
export default async function* failures(source) {
  for await (const { type, data } of source) {
    if (type !== 'test:fail' || data.details?.error?.failureType === 'subtestsFailed') continue
    yield `${JSON.stringify({ file: data.file ?? data.name, name: data.name })}\n`
  }
}
