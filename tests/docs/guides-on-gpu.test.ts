/**
 * The blocks of the guides, pasted into empty files, run on a GPU as they do on the simulator: Node runs them without their types, since
 * no compiler need be there.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { Device } from 'cuda-streams'
import { openOrt } from '../../src/libraries/onnx/onnx-library.js'
import { openCudaWorkbench } from '../helpers/cuda-workbench.js'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { lackOf } from '../helpers/python.js'
import { root } from '../helpers/root.js'
import { lacksOnnxRuntime } from '../libraries/onnx/runtime.js'
import { type Block, programsOf, readPages, titleOf } from './guide-pages.js'
import { asShown, runPrograms } from './guide-runner.js'

/** The first Node that runs TypeScript with `using` in it. */
const OLDEST_NODE = 24

function lackHere(): string | false {
  if (Number(process.versions.node.split('.')[0]) < OLDEST_NODE) return `Node ${OLDEST_NODE} runs TypeScript with using`
  if (!existsSync(join(root, 'docs'))) return 'the docs are not here'
  const workbench = openCudaWorkbench()
  return typeof workbench === 'string' ? workbench : false
}

const skip = lackHere()
if (skip !== false) console.log(`skipped: the code in the guides on a GPU: ${skip}`)

const lacksCudaProvider = (): string | false =>
  !openOrt().providers.includes('CUDAExecutionProvider') && 'ONNX Runtime has no provider for CUDA'

/** What a block says that it needs, or takes of the simulator, and why that is not here. */
function lacking({ code }: Block): string | false {
  const taken = /import \{(.*)\} from 'cuda-streams\/sim'/.exec(code)?.[1] ?? 'simulate'
  if (!/\bsimulate\b/.test(taken)) return 'is about the simulator'
  const needs = /^\/\/ Needs (.*)/.exec(code)?.[1] ?? ''
  const lack: (readonly [RegExp, () => string | false | undefined])[] = [
    [/\bfile\b|\bNode that you ship/, () => 'a file of the reader'],
    [/NVRTC/, lacksNvrtc],
    [/PyTorch/, () => lackOf('torch')],
    [/Python/, () => lackOf('numpy')],
    [/ONNX Runtime/, () => lacksOnnxRuntime() || lacksCudaProvider()],
    [/two GPUs/, () => (Device.count() < 2 ? 'one GPU' : false)],
  ]
  for (const [named, lacks] of lack) {
    const why = named.test(needs) && lacks()
    if (why) return why
  }
  return false
}

/** What came of each program; Deno runs no test of an async describe(). */
async function runAll() {
  // Within dist/, where 'cuda-streams' is this package, as built.
  const folder = mkdtempSync(join(root, 'dist', 'guides-'))
  const project = join(folder, 'project')
  mkdirSync(project)
  writeFileSync(join(project, 'package.json'), '{ "private": true }')
  const programs = readPages()
    .flatMap(programsOf)
    .flatMap((block, at) => {
      const why = lacking(block)
      if (why === false) return [{ block, script: join(folder, `${at}.${block.language === 'ts' ? 'mts' : 'mjs'}`) }]
      console.log(`skipped: ${titleOf(block)}: ${why}`)
      return []
    })
  for (const { block, script } of programs) writeFileSync(script, block.code)
  const scripts = programs.map(({ script }) => script)
  return { folder, programs, runs: await runPrograms(scripts, project, 'cuda') }
}

const ran = skip === false ? await runAll() : undefined

describe('the code in the guides runs as pasted on a GPU', { skip }, () => {
  if (ran === undefined) return
  after(() => rmSync(ran.folder, { recursive: true, force: true }))
  for (const { block, script } of ran.programs) {
    it(titleOf(block), () => {
      const run = ran.runs.get(script)
      assert.equal(run?.trouble, '')
      if (block.output !== undefined) assert.equal(asShown(run.output.trimEnd(), block.output), block.output)
    })
  }
})
