// Serves a folder under /playground/, as the site does, and opens Chromium on it.
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { dirname, extname, join, normalize, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findChromium } from '../../../dist/tests/helpers/chromium.js'

const here = dirname(fileURLToPath(import.meta.url))
export const root = resolve(here, '..', '..', '..')
export const dist = resolve(here, '..', 'dist')

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json' }

/** Resolves to its address, and what ends it. */
export async function serve() {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    const path = join(dist, normalize(pathname.replace(/^\/playground\//, '/').replace(/\/$/, '/index.html')))
    if (!path.startsWith(dist) || !existsSync(path)) {
      response.writeHead(404).end()
      return
    }
    response.writeHead(200, { 'content-type': `${TYPES[extname(path)] ?? 'text/plain'}; charset=utf-8` })
    response.end(readFileSync(path))
  })
  await new Promise((done) => server.listen(0, '127.0.0.1', done))
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => server.close() }
}

export const openPlaywright = () => createRequire(join(root, 'package.json'))('playwright-core')

export const launch = () => openPlaywright().chromium.launch({ executablePath: findChromium(), args: ['--no-sandbox'] })
