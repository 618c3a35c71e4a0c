/**
 * CPython inside the Node process: libpython is loaded with koffi, and Python code runs on the thread that calls.
 * For tests and examples that need another owner of CUDA streams (PyTorch, CuPy, ...) beside the library.
 *
 * `CUDA_STREAMS_LIBPYTHON` names the shared library to load; otherwise `python3` is asked where its own one is. Modules
 * come from where that `python3` would take them, a virtual environment included.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import koffi, { type LibraryHandle } from 'koffi'

/** The interpreter of this process. Names that code defines stay defined for later calls. */
export interface Python {
  /** Such as '3.12.3'. */
  readonly version: string
  /** The shared library it came from. */
  readonly library: string
  /** Runs statements. Common indentation is removed, so an indented template literal will do. */
  run(code: string): void
  /** A number, or what `float()` makes one of. An integer that a double cannot hold is refused. */
  number(expression: string): number
  /** An integer of up to 64 bits, exactly. */
  handle(expression: string): bigint
  /** `str()` of the value. */
  text(expression: string): string
  /** The value by way of `json.dumps`. */
  json(expression: string): unknown
}

/** What Python raised. The message is the Python traceback; its last line names the exception. */
export class PythonError extends Error {
  static {
    PythonError.prototype.name = 'PythonError'
  }
}

/** What the `python3` executable says about itself. */
interface Installation {
  readonly version: string
  readonly executable: string
  readonly prefix: string
  readonly execPrefix: string
  readonly basePrefix: string
  readonly baseExecPrefix: string
  readonly path: readonly string[]
  readonly libraryNames: readonly (string | null)[]
  readonly libraryFolders: readonly (string | null)[]
}

const DESCRIBE = `
import json, os, sys, sysconfig
v = sysconfig.get_config_var
two = '%d.%d' % sys.version_info[:2]
print(json.dumps({
  'version': two,
  'executable': sys.executable,
  'prefix': sys.prefix, 'execPrefix': sys.exec_prefix,
  'basePrefix': sys.base_prefix, 'baseExecPrefix': sys.base_exec_prefix,
  'path': [p for p in sys.path if p],
  'libraryNames': [v('INSTSONAME'), v('LDLIBRARY'), 'libpython' + two + '.so.1.0', 'libpython' + two + '.so',
                   'libpython' + two + '.dylib'],
  'libraryFolders': [v('LIBDIR'), os.path.join(v('LIBDIR') or '', v('MULTIARCH') or ''), v('LIBPL'),
                     os.path.join(sys.base_exec_prefix, 'lib'), '/usr/lib/' + (v('MULTIARCH') or ''), '/usr/lib64',
                     '/usr/local/lib'],
}))
`

/** The Python half: one function that runs or evaluates, and answers in bytes: '=' and the value, '!' and a traceback. */
const BRIDGE = `
import json, linecache, math, operator, os, site, sys, textwrap, traceback

def configure(text):
    told = json.loads(text)
    sys.executable = told['executable']
    sys.prefix, sys.exec_prefix = told['prefix'], told['execPrefix']
    sys.base_prefix, sys.base_exec_prefix = told['basePrefix'], told['baseExecPrefix']
    known = set(sys.path)
    sys.path[:] = told['path']
    if not hasattr(sys, 'argv'):
        sys.argv = ['']
    for folder in told['path']:
        # Of a virtual environment that site has not seen: its .pth files are still to be read.
        if folder not in known and os.path.basename(folder) in ('site-packages', 'dist-packages'):
            site.addsitedir(folder)

def number(value):
    if isinstance(value, (str, bytes)):
        raise TypeError('a number is expected, not ' + repr(value))
    try:
        whole = operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        return repr(float(value))
    if abs(whole) > 2 ** 53:
        raise OverflowError('%d has no exact double; ask for a handle' % whole)
    return repr(int(whole))

def handle(value):
    whole = operator.index(value)
    if not -2 ** 63 <= whole < 2 ** 64:
        raise OverflowError('%d does not fit into 64 bits' % whole)
    return repr(int(whole))

FORMATS = {'number': number, 'handle': handle, 'text': str, 'json': lambda value: json.dumps(value, allow_nan=False)}
SCOPE = sys.modules['__main__'].__dict__
calls = 0

def call(kind, source):
    global calls
    answer = ''
    try:
        calls += 1
        name = '<%s %d from Node>' % (kind, calls)
        source = textwrap.dedent(source).strip('\\n')
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        if kind == 'run':
            exec(compile(source, name, 'exec'), SCOPE)
        else:
            answer = FORMATS[kind](eval(compile(source.strip(), name, 'eval'), SCOPE))
            del linecache.cache[name]
        result = b'=' + answer.encode('utf-8', 'replace')
    except BaseException as error:
        trace = error.__traceback__
        lines = traceback.format_exception(type(error), error, trace.tb_next if trace else None)
        result = b'!' + ''.join(lines).rstrip().encode('utf-8', 'replace')
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()  # the interpreter is never finalised, so nobody else would
        except Exception:
            pass
    return result
`

const LIBRARY_VARIABLE = 'CUDA_STREAMS_LIBPYTHON'
const HOME_VARIABLE = 'PYTHONHOME'
const MODULE = '_cuda_streams_bridge'
const RTLD_NOW = 0x2
const RTLD_NODELETE = 0x1000

/** A pointer to a Python object; user-space addresses fit a number. */
type PyObject = number

/** The C API that is used: all of it in the stable ABI or unchanged since Python 3.2. */
function declare(library: LibraryHandle) {
  const pointer = 'uintptr_t'
  return {
    Py_GetVersion: library.func('Py_GetVersion', 'str', []) as () => string,
    Py_IsInitialized: library.func('Py_IsInitialized', 'int', []) as () => number,
    Py_InitializeEx: library.func('Py_InitializeEx', 'void', ['int']) as (signals: number) => void,
    PyEval_SaveThread: library.func('PyEval_SaveThread', pointer, []) as () => number,
    PyGILState_Ensure: library.func('PyGILState_Ensure', 'int', []) as () => number,
    PyGILState_Release: library.func('PyGILState_Release', 'void', ['int']) as (state: number) => void,
    PyRun_SimpleString: library.func('PyRun_SimpleString', 'int', ['str']) as (code: string) => number,
    PyImport_AddModule: library.func('PyImport_AddModule', pointer, ['str']) as (name: string) => PyObject,
    PyModule_GetDict: library.func('PyModule_GetDict', pointer, [pointer]) as (module: PyObject) => PyObject,
    PyDict_GetItemString: library.func('PyDict_GetItemString', pointer, [pointer, 'str']) as (
      dict: PyObject,
      key: string,
    ) => PyObject,
    PyUnicode_DecodeUTF8: library.func('PyUnicode_DecodeUTF8', pointer, ['const uint8_t *', 'intptr_t', 'str']) as (
      bytes: Uint8Array,
      length: number,
      errors: string,
    ) => PyObject,
    PyTuple_New: library.func('PyTuple_New', pointer, ['intptr_t']) as (length: number) => PyObject,
    /** Takes over the reference to `item`. */
    PyTuple_SetItem: library.func('PyTuple_SetItem', 'int', [pointer, 'intptr_t', pointer]) as (
      tuple: PyObject,
      index: number,
      item: PyObject,
    ) => number,
    PyObject_CallObject: library.func('PyObject_CallObject', pointer, [pointer, pointer]) as (
      callable: PyObject,
      args: PyObject,
    ) => PyObject,
    PyBytes_AsString: library.func('PyBytes_AsString', pointer, [pointer]) as (bytes: PyObject) => number,
    PyBytes_Size: library.func('PyBytes_Size', 'intptr_t', [pointer]) as (bytes: PyObject) => number,
    PyErr_Print: library.func('PyErr_Print', 'void', []) as () => void,
    Py_DecRef: library.func('Py_DecRef', 'void', [pointer]) as (object: PyObject) => void,
  }
}
type Api = ReturnType<typeof declare>

class Interpreter implements Python {
  readonly version: string
  readonly library: string
  readonly #api: Api
  readonly #call: PyObject

  constructor(api: Api, library: string, call: PyObject) {
    this.#api = api
    this.#call = call
    this.library = library
    this.version = versionOf(api)
  }

  run(code: string): void {
    this.#ask('run', code)
  }

  number(expression: string): number {
    const text = this.#ask('number', expression)
    if (text === 'inf') return Number.POSITIVE_INFINITY
    return text === '-inf' ? Number.NEGATIVE_INFINITY : Number(text)
  }

  handle(expression: string): bigint {
    return BigInt(this.#ask('handle', expression))
  }

  text(expression: string): string {
    return this.#ask('text', expression)
  }

  json(expression: string): unknown {
    return JSON.parse(this.#ask('json', expression))
  }

  #ask(kind: 'run' | 'number' | 'handle' | 'text' | 'json', code: string): string {
    const api = this.#api
    const gil = api.PyGILState_Ensure()
    let answer: string | undefined
    try {
      const args = api.PyTuple_New(2)
      api.PyTuple_SetItem(args, 0, this.#string(kind))
      api.PyTuple_SetItem(args, 1, this.#string(code))
      const result = api.PyObject_CallObject(this.#call, args)
      api.Py_DecRef(args)
      if (result === 0) {
        api.PyErr_Print()
      } else {
        answer = textAt(api.PyBytes_AsString(result), api.PyBytes_Size(result))
        api.Py_DecRef(result)
      }
    } finally {
      api.PyGILState_Release(gil)
    }
    if (answer === undefined) throw new PythonError('Python could not answer; what it said is on stderr')
    if (answer.startsWith('!')) throw new PythonError(answer.slice(1))
    return answer.slice(1)
  }

  #string(text: string): PyObject {
    const bytes = Buffer.from(text, 'utf8')
    return this.#api.PyUnicode_DecodeUTF8(bytes, bytes.length, 'strict')
  }
}

function versionOf(api: Api): string {
  return api.Py_GetVersion().split(' ')[0] ?? ''
}

/** Copies the text out: the memory is Python's. */
function textAt(address: number, length: number): string {
  return length === 0 ? '' : Buffer.from(koffi.view(BigInt(address), length)).toString('utf8')
}

function describeInstallation(executable: string): Installation | undefined {
  try {
    const text = execFileSync(executable, ['-c', DESCRIBE], {
      encoding: 'utf8',
      timeout: 60_000,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    return JSON.parse(text) as Installation
  } catch {
    return undefined
  }
}

function libraryOf(installation: Installation): { path: string } | { tried: readonly string[] } {
  const names = new Set(installation.libraryNames.filter((name) => name !== null && /\.(so|dylib)\b/.test(name)))
  const tried = new Set<string>()
  for (const folder of installation.libraryFolders) {
    for (const name of names) {
      if (folder && name) tried.add(join(folder, name))
    }
  }
  const path = [...tried].find((candidate) => existsSync(candidate))
  return path === undefined ? { tried: [...tried] } : { path }
}

function start(): Python | string {
  const asked = process.env[LIBRARY_VARIABLE]
  let installation = describeInstallation('python3')
  let path = asked
  if (!path) {
    if (installation === undefined) return 'python3 is not on the PATH, or does not answer'
    const found = libraryOf(installation)
    if ('tried' in found) {
      return `${installation.executable} has no shared libpython (tried ${found.tried.join(', ')}); ${LIBRARY_VARIABLE} can name one`
    }
    path = found.path
  }

  let loaded: LibraryHandle
  try {
    loaded = koffi.load(path, { global: true })
  } catch (error) {
    return `${path} could not be loaded: ${error instanceof Error ? error.message : String(error)}`
  }
  keepLoaded(path)
  const api = declare(loaded)

  const version = versionOf(api)
  const short = version.split('.').slice(0, 2).join('.')
  if (installation?.version !== short) {
    const other = installation
    installation = describeInstallation(`python${short}`)
    if (installation?.version !== short) {
      return `${path} is Python ${version}, and there is no python${short} to take its modules from (python3 is ${other?.version ?? 'missing'})`
    }
  }

  // Another thread of Node may have started it already.
  const first = api.Py_IsInitialized() === 0
  if (first) initialise(api, installation)
  const gil = first ? undefined : api.PyGILState_Ensure()
  try {
    const find = () => api.PyDict_GetItemString(api.PyModule_GetDict(api.PyImport_AddModule(MODULE)), 'call')
    let call = find()
    if (call === 0) {
      if (api.PyRun_SimpleString(bridgeCode(installation)) !== 0) return 'the bridge module failed; see stderr'
      call = find()
    }
    return new Interpreter(api, path, call)
  } finally {
    // Without the GIL from here on, so that Python's own threads run while JavaScript does.
    if (gil === undefined) api.PyEval_SaveThread()
    else api.PyGILState_Release(gil)
  }
}

/** Starts Python without its signal handlers. The standard library is found by PYTHONHOME, set for just that long. */
function initialise(api: Api, installation: Installation): void {
  const before = process.env[HOME_VARIABLE]
  process.env[HOME_VARIABLE] = [installation.basePrefix, installation.baseExecPrefix].join(delimiter)
  try {
    api.Py_InitializeEx(0)
  } finally {
    if (before === undefined) delete process.env[HOME_VARIABLE]
    else process.env[HOME_VARIABLE] = before
  }
}

function bridgeCode(installation: Installation): string {
  // JSON strings of ASCII text are Python strings too.
  const ascii = JSON.stringify(installation).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  return [
    'import sys, types',
    `sys.modules['${MODULE}'] = types.ModuleType('${MODULE}')`,
    `exec(compile(${JSON.stringify(BRIDGE)}, '<${MODULE}>', 'exec'), sys.modules['${MODULE}'].__dict__)`,
    `sys.modules['${MODULE}'].configure(${JSON.stringify(ascii)})`,
    'del sys, types',
  ].join('\n')
}

/** koffi closes a library whose last function is collected, at exit too; threads of Python may still run in it then. */
function keepLoaded(path: string): void {
  if (process.platform !== 'linux') return
  const open = koffi.load(null).func('dlopen', 'uintptr_t', ['str', 'int']) as (path: string, flags: number) => number
  open(path, RTLD_NOW | RTLD_NODELETE)
}

let started: Python | string | undefined

/**
 * The interpreter of this process, started at the first call; undefined where there is no shared libpython. It is
 * never finalised: with PyTorch loaded, that hangs.
 */
export function startPython(): Python | undefined {
  started ??= start()
  return typeof started === 'string' ? undefined : started
}

/** Why `startPython()` gives nothing; undefined if it gives an interpreter. */
export function pythonUnavailable(): string | undefined {
  startPython()
  return typeof started === 'string' ? started : undefined
}
