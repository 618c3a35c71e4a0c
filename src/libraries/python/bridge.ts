/**
 * The half of the interpreter's interface that is written in Python. It is run once in each thread of JavaScript, in a namespace of its own,
 * and leaves the address of a C function that answers requests, which are JSON: see `Interpreter`.
 *
 * `frame` is the address of the word for that function, `call_back` that of a C function that calls JavaScript, `installation` what
 * installation.ts found. Values are those of JSON, or an object with one key: 'i' a large integer, 'f' a number that JSON does not have, 'd'
 * a dict, 'b' bytes, 'o' an object that is held here; from JavaScript also 's' a stream, 'm' an array, 'c' a tensor of DLPack.
 */
export const BRIDGE = `
import base64, ctypes, importlib, json, linecache, numbers, operator, os, site, sys, textwrap, threading, traceback

FILE = '<cuda-streams>'
thread = threading.get_ident()
main = sys.modules['__main__'].__dict__
held = {}      # objects of Python that JavaScript has
forgotten = [] # numbers of objects of JavaScript that Python had
last = 0
count = 0
reply = b''
to_json = json.JSONEncoder(allow_nan=False).encode  # json.dumps() makes one for each call

def configure():
    sys.executable = installation['executable']
    sys.prefix, sys.exec_prefix = installation['prefix'], installation['execPrefix']
    sys.base_prefix, sys.base_exec_prefix = installation['basePrefix'], installation['baseExecPrefix']
    known = set(sys.path)
    sys.path[:] = installation['path']
    if not hasattr(sys, 'argv'):
        sys.argv = ['']
    for folder in installation['path']:
        # Of a virtual environment that site has not seen: its .pth files are still to be read.
        if folder not in known and os.path.basename(folder) in ('site-packages', 'dist-packages'):
            site.addsitedir(folder)

# Objects of JavaScript. Each has a number there, and is kept until Python has no more use for it.

class JavaScriptObject:
    def __init__(self, number):
        self.number = number
    def __del__(self):
        forgotten.append(self.number)

class Stream(JavaScriptObject):
    """A stream of cuda-streams, by the protocol __cuda_stream__."""
    def __init__(self, number, handle):
        super().__init__(number)
        self.handle = handle
    def __cuda_stream__(self):
        return (0, self.handle)
    def __repr__(self):
        return '<Stream 0x%x of cuda-streams>' % self.handle

class Buffer(JavaScriptObject):
    """Memory of cuda-streams, by DLPack. Each consumer takes it in the order of its own stream."""
    def __init__(self, number, device):
        super().__init__(number)
        self.device = tuple(device)
    def __dlpack_device__(self):
        return self.device
    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if threading.get_ident() != thread:
            raise BufferError('A buffer of JavaScript can be taken on its thread only')
        if copy or (dl_device is not None and tuple(dl_device) != self.device):
            raise BufferError('A buffer of JavaScript is not copied, and is on device %s' % (self.device,))
        major = 0 if max_version is None else max_version[0]
        pointer = ask_javascript(self.number, 1 if stream is None else stream, major)
        if pointer <= 0:
            raise BufferError(ctypes.string_at(-pointer).decode() if pointer else 'JavaScript gave no memory')
        return capsule(pointer, major >= 1)

# CFUNCTYPE lets other threads of Python run while JavaScript does.
ask_javascript = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(call_back)

# Capsules of DLPack.

NAMES = {False: b'dltensor', True: b'dltensor_versioned'}
USED = {False: b'used_dltensor', True: b'used_dltensor_versioned'}
DELETERS = {False: 56, True: 16}

def api(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))

pointer_type, text_type, object_type = ctypes.c_void_p, ctypes.c_char_p, ctypes.py_object
new_capsule = api('PyCapsule_New', object_type, pointer_type, text_type, pointer_type)
is_valid = api('PyCapsule_IsValid', ctypes.c_int, pointer_type, text_type)
pointer_in = api('PyCapsule_GetPointer', pointer_type, pointer_type, text_type)
rename = api('PyCapsule_SetName', ctypes.c_int, object_type, text_type)

# Capsules that no consumer has taken yet. A destructor in Python cannot free the tensor of one that nobody takes: a consumer that
# refuses a tensor drops the capsule while its error is set, which code in Python would replace.
offered = []

def references(objects):
    return sys.getrefcount(objects[-1])

HERE_ALONE = references([object()])

def free_dropped():
    """Frees the tensors of capsules that nobody has taken, and nobody has any more."""
    kept = []
    while offered:
        [versioned] = [each for each, name in NAMES.items() if is_valid(id(offered[-1]), name)] or [None]
        if versioned is None:
            offered.pop()
        elif references(offered) > HERE_ALONE:
            kept.append(offered.pop())
        else:
            tensor = pointer_in(id(offered[-1]), NAMES[versioned])
            offered.pop()
            deleter = ctypes.c_void_p.from_address(tensor + DELETERS[versioned]).value
            ctypes.CFUNCTYPE(None, pointer_type)(deleter)(tensor)
    offered.extend(kept)

def capsule(pointer, versioned):
    offered.append(new_capsule(pointer, NAMES[versioned], None))
    return offered[-1]

def dlpack(tensor, stream, version):
    options = {} if stream is None else {'stream': stream}
    try:
        it = tensor.__dlpack__(max_version=tuple(version), **options)
    except TypeError:
        it = tensor.__dlpack__(**options)  # from before there were versions
    for versioned, name in NAMES.items():
        if is_valid(id(it), name):
            pointer = pointer_in(id(it), name)
            rename(it, USED[versioned])
            return [pointer, versioned]
    raise TypeError('__dlpack__ returned no capsule of a tensor')

# Values.

def name_of(kind):
    module = kind.__module__
    return kind.__qualname__ if module in ('builtins', '__main__', None) else '%s.%s' % (module, kind.__qualname__)

def hold(value):
    global last
    last += 1
    held[last] = value
    return {'o': last, 't': name_of(type(value))}

def scalar(value):
    """The value as it is in JSON; None, which JSON has too, if it is no number, text or bool itself."""
    kind = type(value)
    if kind is bool or kind is str:
        return value
    if kind is int:
        return value if abs(value) < 2 ** 53 else {'i': '%s%x' % ('-' if value < 0 else '', abs(value))}
    if kind is float:
        # A whole one would become an int on its way back.
        return value if value - value == 0 and not value.is_integer() else {'f': repr(value)}
    return None

def shallow(value):
    told = scalar(value)
    return told if told is not None or value is None else hold(value)

def deep(value):
    told = scalar(value)
    if told is not None or value is None:
        return told
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [deep(each) for each in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {'d': {key: deep(each) for key, each in value.items()}}
    if isinstance(value, (bytes, bytearray)):
        return {'b': base64.b64encode(value).decode()}
    if isinstance(value, numbers.Integral):
        return scalar(int(value))
    if isinstance(value, float) or (isinstance(value, numbers.Real) and hasattr(value, 'dtype')):
        return scalar(float(value))
    if type(value).__module__ == 'numpy' and type(value).__name__ in ('bool', 'bool_'):
        return bool(value)
    return hold(value)

def decoded(value):
    if isinstance(value, list):
        return [decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    [(kind, given)] = value.items()
    if kind == 'o':
        return held[given]
    if kind == 'd':
        return {key: decoded(each) for key, each in given.items()}
    if kind == 'i':
        return int(given, 16)
    if kind == 'f':
        return float(given)
    if kind == 's':
        return Stream(*given)
    if kind == 'c':
        return capsule(*given)
    address, length, layout = given
    return memoryview(bytearray(ctypes.string_at(address, length))).cast(layout)

# What JavaScript asks for.

RUN, MOST_SOURCES = '<run %d from JavaScript>', 1000

def run(code, names):
    global count
    count += 1
    name = RUN % count
    source = textwrap.dedent(code).strip('\\n')
    compiled = compile(source, name, 'exec')
    # For the tracebacks of functions that it defines. A server may run code for years.
    linecache.cache.pop(RUN % (count - MOST_SOURCES), None)
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    given = decoded(names)
    before = {key: main[key] for key in given if key in main}
    main.update(given)
    try:
        exec(compiled, main)
    finally:
        for key, value in given.items():
            # What the code has assigned stays.
            if main.get(key, main) is value:
                del main[key]
                if key in before:
                    main[key] = before[key]

def evaluate(expression, names):
    name = '<expression from JavaScript>'
    source = textwrap.dedent(expression).strip()
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = decoded(names)
    return shallow(eval(compile(source, name, 'eval'), {**main, **names} if names else main))

def number(value):
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError('A number is expected, not ' + repr(value))
    whole = None
    try:
        whole = operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        pass  # float() comes later, so that what it raises does not come with this one
    if whole is None:
        return scalar(float(value))
    if abs(whole) > 2 ** 53:
        raise OverflowError('%d has no exact number in JavaScript: use bigint()' % whole)
    return int(whole)

STREAM_MEMBERS = ('cuda_stream', 'ptr', 'handle')

def stream_handle(value):
    protocol = getattr(value, '__cuda_stream__', None)
    if protocol is not None:
        reply = protocol() if callable(protocol) else protocol
        if isinstance(reply, (list, tuple)):
            reply = [int(each) if hasattr(each, '__int__') else each for each in reply]
        return deep(reply)  # the library checks it
    if 'stream' in type(value).__name__.lower():
        for name in STREAM_MEMBERS:
            handle = getattr(value, name, None)
            if handle is not None:
                # Numba has a ctypes pointer or an object of cuda.bindings, by version.
                return [0, int(getattr(handle, 'value', handle) or 0)]
    raise TypeError('A %s is no stream: it has no __cuda_stream__' % name_of(type(value)))

class Exported(ctypes.Structure):
    """A Py_buffer. Its first words are all that is read."""
    _fields_ = [('address', ctypes.c_void_p), ('rest', ctypes.c_byte * 128)]

get_buffer = api('PyObject_GetBuffer', ctypes.c_int, object_type, pointer_type, ctypes.c_int)
release_buffer = api('PyBuffer_Release', None, pointer_type)
KINDS = {**dict.fromkeys('bhilqn', 'i'), **dict.fromkeys('cBHILQN', 'u'), **dict.fromkeys('efd', 'f'), '?': 'bool'}
LITTLE = ('@', '=', '<')

def array(value, copied):
    """Where the elements of an array are, row after row; they stay there as long as the object is held whose number is given."""
    try:
        view = memoryview(value)
    except TypeError:
        if not hasattr(value, '__array__'):
            raise
        view = memoryview(value.__array__())
    layout = view.format.lstrip(''.join(LITTLE))
    kind = KINDS.get(layout)
    if kind is None:
        raise TypeError('JavaScript has no array for elements of format %r' % view.format)
    if copied:
        keeper = memoryview(view.tobytes())
    elif view.c_contiguous:
        keeper = view
    else:
        raise BufferError('The elements do not lie one behind the other, as in a typed array: use arrayCopy()')
    exported = Exported()
    if get_buffer(keeper, ctypes.addressof(exported), 0) != 0:
        raise BufferError('The memory is not exported')
    address = exported.address or 0
    release_buffer(ctypes.addressof(exported))
    return {
        'type': kind if kind == 'bool' else '%s%d' % (kind, 8 * view.itemsize),
        'shape': list(view.shape), 'address': address, 'byteLength': view.nbytes,
        'readOnly': view.readonly and not copied, **hold(keeper)}

def release(numbers):
    for each in numbers:
        held.pop(each, None)

OPERATIONS = {
    'run': run,
    'evaluate': evaluate,
    'import': lambda name: hold(importlib.import_module(name)),
    'get': lambda it, name: shallow(getattr(decoded(it), name)),
    'set': lambda it, name, value: setattr(decoded(it), name, decoded(value)),
    'item': lambda it, *keys: shallow(decoded(it)[decoded(keys[0]) if len(keys) == 1 else tuple(map(decoded, keys))]),
    'set item': lambda it, key, value: operator.setitem(decoded(it), decoded(key), decoded(value)),
    'call': lambda it, arguments, keywords: shallow(decoded(it)(*decoded(arguments), **decoded(keywords))),
    'invoke': lambda it, name, arguments, keywords:
        shallow(getattr(decoded(it), name)(*decoded(arguments), **decoded(keywords))),
    'number': lambda it: number(decoded(it)),
    'bigint': lambda it: scalar(operator.index(int(decoded(it)) if type(decoded(it)) is bool else decoded(it))),
    'text': lambda it: str(decoded(it)),
    'boolean': lambda it: bool(decoded(it)),
    'value': lambda it: deep(decoded(it)),
    'array': lambda it, copied: array(decoded(it), copied),
    'stream': lambda it: stream_handle(decoded(it)),
    'dlpack device': lambda it: [int(part) for part in decoded(it).__dlpack_device__()],
    'dlpack': lambda it, stream, version: dlpack(decoded(it), stream, version),
    'array interface': lambda it: deep(decoded(it).__cuda_array_interface__),
    'share': lambda number, device: hold(Buffer(number, device)),
    'release': lambda: None,
}

def lines_of(error):
    """The traceback, from the first line that is not of this file on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == FILE:
        trace = trace.tb_next
    try:
        return ''.join(traceback.format_exception(type(error), error, trace)).rstrip()
    except Exception:
        return name_of(type(error)) + ': its traceback cannot be formatted'

def message_of(error):
    try:
        return str(error)
    except Exception:
        return 'its message cannot be made'

def respond(request):
    try:
        released, operation, *arguments = json.loads(request)
        release(released)
        answer = [True, OPERATIONS[operation](*arguments)]
        text = to_json(answer)
    except BaseException as error:
        text = to_json([False, [name_of(type(error)), message_of(error), lines_of(error)]])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()  # the interpreter is never finalised, so nobody else would
        except Exception:
            pass
    if offered:
        free_dropped()
    gone = []
    while forgotten:  # other threads may add to it meanwhile
        gone.append(forgotten.pop())
    return ('%s, %s]' % (text[:-1], to_json(gone) if gone else '[]')).encode()

def answer(address, length, room):
    """Answers the request at an address, or repeats the last reply if the request is empty. Returns the length of the reply."""
    global reply
    try:
        if length > 0:
            reply = respond(ctypes.string_at(address, length))
        size = len(reply)
        if size <= room:
            ctypes.memmove(address, reply, size)
            reply = b''
        return size
    except BaseException:
        traceback.print_exc()
        return 0

answering = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(answer)
namespaces = sys.__dict__.setdefault('_cuda_streams', [])
if not namespaces:
    configure()
namespaces.append(globals())
ctypes.c_uint64.from_address(frame).value = ctypes.cast(answering, ctypes.c_void_p).value
`
