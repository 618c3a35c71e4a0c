/** Imports the package and says what that brought into the process, as JSON. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { createRequire } from 'node:module'

await import('cuda-streams')
const entryPoints = process.argv.slice(2)
for (const entryPoint of entryPoints) await import(entryPoint)

/** Of a virtual file that not every platform has. */
function lines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n')
  } catch {
    return []
  }
}

function openFiles(): string[] {
  try {
    return readdirSync('/proc/self/fd').flatMap((name) => {
      try {
        return [readlinkSync(`/proc/self/fd/${name}`)]
      } catch {
        return []
      }
    })
  } catch {
    return []
  }
}

/** Bun's and Deno's reports have none. */
const report = process.report.getReport() as unknown as { readonly sharedObjects?: readonly string[] }
console.log(
  JSON.stringify({
    sharedObjects: report.sharedObjects ?? [],
    mapped: lines('/proc/self/maps'),
    openFiles: openFiles(),
    modules: Object.keys(createRequire(import.meta.url).cache),
    resources: process.getActiveResourcesInfo(),
  }),
)
