/**
 * The half of the compilation of Triton's kernels that is written in Python: it is run by the Python that has Triton, reads a request from
 * standard input as JSON, and answers on standard output by one line of JSON, `Answer` of answer.ts.
 *
 * Of the file only those statements are run that its kernels need, so that the half for the host, with its PyTorch and its data, is not;
 * a module that is not here is replaced by one that has everything and does nothing.
 */
export const COMPILE_KERNELS = `
import sys
sys.path[:] = [folder for folder in sys.path if folder]  # nothing is imported from the current folder
import ast, contextlib, importlib.abc, importlib.machinery, importlib.util, inspect, io, json, math, os, re, shutil, tempfile, tokenize

request = json.load(sys.stdin)
FILE = request['file']
answers = os.fdopen(os.dup(1), 'w')
os.dup2(2, 1)  # what the file prints is no answer
# Never the cache of Python's users: what is stored here has no machine code.
os.environ['TRITON_CACHE_DIR'] = cache = request['cache'] or tempfile.mkdtemp()

diagnostics, notes = [], []

def wrong(message, line=1, column=1, file=FILE):
    found = {'file': file, 'line': line, 'column': column, 'message': message}
    if found not in diagnostics:
        diagnostics.append(found)

def finish(**more):
    answer = {'diagnostics': diagnostics, 'notes': notes, 'kernels': [], 'includes': [], 'triton': None, 'missing': None, 'executable': sys.executable, **more}
    answers.write(json.dumps(answer) + '\\n')
    answers.flush()
    if not request['cache']:
        shutil.rmtree(cache, ignore_errors=True)
    os._exit(0)

try:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.errors import CompilationError
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction, type_canonicalisation_dict
except ImportError as error:
    finish(missing=str(error))

TRITON = {'version': triton.__version__, 'file': triton.__file__}
if tuple(int(part) for part in triton.__version__.split('.')[:2]) < (3, 4):
    finish(missing='Triton is ' + triton.__version__ + ', and 3.4 or later is needed')

class Nothing:
    """Stands for what is not here: it has every attribute, takes every call, and decorates nothing."""
    def __call__(self, *given, **named):
        return given[0] if len(given) == 1 and callable(given[0]) and not named else self
    def __getattr__(self, name):
        if name == '__version__':
            return '0'
        if name.startswith('__') and name.endswith('__'):
            raise AttributeError(name)
        return self
    def __getitem__(self, key): return self
    def __iter__(self): return iter(())
    def __bool__(self): return False
    def __len__(self): return 0
    def __int__(self): return 0
    def __index__(self): return 0
    def __enter__(self): return self
    def __exit__(self, *why): return False
    def __lt__(self, other): return False
    __le__ = __gt__ = __ge__ = __lt__
    def __add__(self, other): return self
    __radd__ = __sub__ = __mul__ = __rmul__ = __floordiv__ = __truediv__ = __mod__ = __or__ = __and__ = __add__
    def __mro_entries__(self, bases): return (object,)

nothing = Nothing()
missing_modules = set()

class MissingModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules that are not here, where a file of the project imports them and does not handle that they are missing."""
    def find_spec(self, name, path=None, target=None):
        top = name.split('.')[0]
        if top in missing_modules or self.is_wanted():
            missing_modules.add(top)
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None
    def is_wanted(self):
        frame = sys._getframe(2)
        while frame is not None and 'importlib' in frame.f_code.co_filename:
            frame = frame.f_back
        return frame is not None and is_own(frame.f_code.co_filename) and not is_tried(frame.f_code.co_filename, frame.f_lineno)
    def create_module(self, spec): return None
    def exec_module(self, module):
        module.__getattr__ = lambda name: nothing if not name.startswith('__') else getattr(nothing, name)

def is_own(file):
    path = os.path.realpath(file)
    return os.path.isfile(path) and not re.search(r'[/\\\\](?:site|dist)-packages[/\\\\]', path) and not any(
        path.startswith(os.path.realpath(folder) + os.sep) for folder in (os.path.dirname(os.__file__), os.path.dirname(triton.__file__)))

def is_tried(file, line):
    with open(file, encoding='utf-8') as source:
        tree = ast.parse(source.read())
    return any(isinstance(each, ast.Try) and each.body[0].lineno <= line <= each.body[-1].end_lineno for each in ast.walk(tree))

class Driver:
    """Stands for the GPU, which a build does not need."""
    def get_current_target(self): return GPUTarget('cuda', request['arch'], 32)
    def get_current_device(self): return 0
    def __getattr__(self, name): return nothing

triton.runtime.driver.set_active(Driver())
sys.meta_path.append(MissingModules())

# What of the file the kernels need.

with open(FILE, encoding='utf-8') as source:
    text = source.read()
try:
    tree = ast.parse(text, FILE)
except SyntaxError as error:
    wrong(error.msg, error.lineno or 1, error.offset or 1)
    finish()

def names_in(node):
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)} | {
        name for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str) for name in re.findall(r'^\\w+$', each.value)}

def bound_by(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split('.')[0] for alias in node.names}
    found = {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()
    for child in ast.iter_child_nodes(node):
        found |= bound_by(child)
    return found

def changed_by(node):
    """The name whose object a statement changes, as in 'configs.append(one)' and 'sizes[0] = 1'."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        node = node.value.func
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        node = node.targets[0]
    else:
        return None
    if not isinstance(node, (ast.Attribute, ast.Subscript)):
        return None
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None

JIT = re.compile(r'(?:^|\\.)jit$')
def is_jit(node):
    return isinstance(node, ast.FunctionDef) and any(
        JIT.search(ast.unparse(each.func if isinstance(each, ast.Call) else each)) for each in node.decorator_list)

kernels_in_source = [each for each in ast.walk(tree) if is_jit(each)]
def has_kernel(node):
    return any(is_jit(each) for each in ast.walk(node))

kept = [has_kernel(node) and not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or is_jit(node) or
        isinstance(node, ast.ImportFrom) and (node.module == '__future__' or node.names[0].name == '*') for node in tree.body]
imported = set().union(*(bound_by(node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))), set())
SPEC = re.compile(r'#\\s*cuda-streams:\\s*(.*)')

def comments():
    """The declarations in comments; one goes on in the next comment until its parentheses are closed."""
    found = []
    with contextlib.suppress(tokenize.TokenError):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type != tokenize.COMMENT:
                continue
            match = SPEC.match(token.string)
            if match:
                found.append([match[1].rstrip(), token.start[0], token.start[1] + 1 + match.start(1)])
            elif found and found[-1][0].count('(') > found[-1][0].count(')'):
                found[-1][0] += ' ' + token.string.lstrip('# ').rstrip()
    return found

specs = comments()
needed = set().union(*(set(re.findall(r'[A-Za-z_]\\w*', each[0])) for each in specs), set())
while True:
    for node, isKept in zip(tree.body, kept):
        if isKept:
            needed |= names_in(node)
    more = [not isKept and (bool(bound_by(node) & needed) or (changed_by(node) or '') in needed - imported) for node, isKept in zip(tree.body, kept)]
    if not any(more):
        break
    kept = [a or b for a, b in zip(kept, more)]
tree.body = [node for node, isKept in zip(tree.body, kept) if isKept]

# Running it.

folder, name = os.path.split(FILE)
package, parts = folder, []
while os.path.isfile(os.path.join(package, '__init__.py')):
    package, part = os.path.split(package)
    parts.insert(0, part)
sys.path.insert(0, folder)
sys.path.insert(0, package)
before = set(sys.modules)
module_name = '.'.join(parts + [os.path.splitext(name)[0].replace('.', '_')])
module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(module_name, None, origin=FILE))
module.__file__, module.__package__ = FILE, '.'.join(parts)
for end in range(1, len(parts) + 1):
    package = '.'.join(parts[:end])
    if package not in sys.modules:
        sys.modules[package] = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(package, None, is_package=True))
        sys.modules[package].__path__ = [os.path.join(*([folder] + ['..'] * (len(parts) - end)))]
sys.modules[module_name] = module

def place_of(error):
    """The innermost place of an error in a file of the project."""
    place, trace = None, error.__traceback__
    while trace is not None:
        if is_own(trace.tb_frame.f_code.co_filename):
            place = (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return place

def said(error):
    return (type(error).__name__ + ': ' + str(error)).rstrip(': ')

try:
    exec(compile(tree, FILE, 'exec'), module.__dict__)
except BaseException as error:
    file, line = place_of(error) or (FILE, 1)
    if isinstance(error, SyntaxError) and error.filename and is_own(error.filename):
        file, line = error.filename, error.lineno or 1
    wrong(said(error) + ' (while Python runs what the kernels need of the file)', line, 1, file)

includes = sorted({os.path.realpath(file) for name, each in list(sys.modules.items()) if name not in before and name != module_name
                   for file in [getattr(each, '__file__', None)] if isinstance(file, str) and is_own(file)} - {os.path.realpath(FILE)})
if diagnostics:
    finish(includes=includes, triton=TRITON)

# The kernels, and what is said of their parameters.

def unwrapped(value):
    layers = []
    while isinstance(value, (Autotuner, Heuristics)):
        layers.append(value)
        value = value.fn
    return (value, layers) if isinstance(value, JITFunction) else (None, [])

functions = {}
for value in list(module.__dict__.values()):
    function, layers = unwrapped(value)
    if function is not None and function.fn.__code__.co_filename == FILE and function.fn.__name__ not in functions:
        functions[function.fn.__name__] = (function, layers)
nodes = {node.name: node for node in kernels_in_source}
called = {each.func.id for node in kernels_in_source for each in ast.walk(node) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)}

SCALARS = set(type_canonicalisation_dict.values())
TYPE = re.compile(r'(\\*?)(?:k)?(\\w+)(?:\\s*:\\s*(\\d+))?$')
OPTIONS = {'num_warps', 'num_stages', 'num_ctas', 'maxnreg', 'enable_fp_fusion', 'launch_cooperative_grid', 'launch_pdl'}

def type_of(text):
    """A type in Triton's notation with its hint; None for other texts."""
    match = TYPE.match(text)
    name = match and (match[2] if match[2] in SCALARS else type_canonicalisation_dict.get(match[2]))
    return (match[1] + name, int(match[3]) if match[3] else None) if name else None

def arguments_in(text):
    parts, depth = [''], 0
    for letter in text:
        depth += (letter in '([{') - (letter in ')]}')
        if letter == ',' and depth == 0:
            parts.append('')
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]

def line_of(function):
    node = nodes.get(function.fn.__name__)
    return (node.lineno, node.col_offset + 5) if node else (function.fn.__code__.co_firstlineno, 1)

def listed(words):
    return words[0] if len(words) == 1 else ', '.join(words[:-1]) + ' and ' + words[-1]

class Instance:
    def __init__(self, function, layers, name, line, column):
        self.function, self.layers, self.name, self.line, self.column = function, layers, name, line, column
        self.types, self.hints, self.constants, self.options = {}, {}, {}, {}
        self.arch, self.configs = request['arch'], None
        for parameter in function.params:
            if parameter.is_constexpr:
                if parameter.has_default:
                    self.constants[parameter.name] = parameter.default
            else:
                found = type_of(parameter.annotation_type or '')
                if found:
                    self.types[parameter.name] = found[0]

    @property
    def tuner(self):
        return next((each for each in self.layers if isinstance(each, Autotuner)), None)

    def wrong(self, message):
        wrong(message, self.line, self.column)

    def value(self, text):
        return eval(text, dict(module.__dict__))

    def read(self, texts):
        """Reads what a comment has between its parentheses."""
        names = [parameter.name for parameter in self.function.params]
        position = 0
        for text in texts:
            head, _, rest = (part.strip() for part in (re.match(r'(\\w+)\\s*([:=])\\s*(.*)$', text) or re.match(r'()()(.*)$', text)).groups())
            if head and type_of(text) is None:
                name, text = head, rest
            elif position < len(names):
                name = names[position]
                position += 1
            else:
                return self.wrong(f"'{text}' is one more than the parameters of {self.function.fn.__name__}, {listed(names)}")
            if name in names:
                position = max(position, names.index(name) + 1)
            elif name not in OPTIONS and name not in ('arch', 'configs'):
                return self.wrong(f"'{name}' is neither a parameter of {self.function.fn.__name__} ({listed(names)}) nor one of {listed(sorted(OPTIONS | {'arch', 'configs'}))}")
            found = type_of(text) if name in names else None
            if found is not None:
                self.constants.pop(name, None)
                self.types[name], hint = found
                if hint not in (None, 1, 16):
                    return self.wrong(f"'{text}' of {name}: a hint is 16, for a multiple of 16, or 1")
                if hint is not None:
                    self.hints[name] = hint
                continue
            if name == 'configs' and text == 'all':
                self.configs = text
                continue
            if name == 'arch':
                if not re.fullmatch(r'\\d{2,3}', text):
                    return self.wrong(f"arch is '{text}': it must be such as 80 or 90")
                self.arch = int(text)
                continue
            try:
                value = self.value(text)
            except Exception as error:
                return self.wrong(f"'{text}' of {name} is no type of Triton, such as '*fp32' or 'i32', and no value: {said(error)}")
            if name == 'configs':
                self.configs = [value] if isinstance(value, int) else list(value)
                continue
            if name in OPTIONS:
                self.options[name] = value
            if name in names:
                self.types.pop(name, None)
                self.constants[name] = value

    def chosen(self):
        """The configurations: their constants and options."""
        tuner = self.tuner
        if tuner is None:
            return [({}, {})]
        wanted = range(len(tuner.configs)) if self.configs == 'all' else self.configs or [0]
        if any(not isinstance(each, int) or not 0 <= each < len(tuner.configs) for each in wanted):
            self.wrong(f'configs is {self.configs}, and {self.function.fn.__name__} has {len(tuner.configs)}, counted from 0')
            return []
        found = []
        for number in wanted:
            config = tuner.configs[number]
            options = {name: getattr(config, name) for name in ('num_warps', 'num_stages', 'num_ctas', 'maxnreg')}
            constants = {name: value for name, value in config.kwargs.items() if name not in OPTIONS}
            options.update({name: value for name, value in config.kwargs.items() if name in OPTIONS})
            if self.configs is None:
                constants = {name: value for name, value in constants.items() if name not in self.constants}
            found.append((constants, options))
        return found

    def heuristics(self, constants):
        for layer in self.layers:
            for name, value in layer.values.items() if isinstance(layer, Heuristics) else ():
                if name not in constants:
                    with contextlib.suppress(Exception):
                        constants[name] = value(dict(constants))

    def missing(self):
        config = self.chosen()
        constants = {**(config[0][0] if config else {}), **self.constants}
        self.heuristics(constants)
        return [each.name for each in self.function.params if each.name not in self.types and each.name not in constants]

ACCESS = re.compile(r'\\b(?:load|store|atomic_\\w+|make_block_ptr|make_tensor_descriptor)$')

def base_of(node):
    """The name that an address is computed from: the leftmost of a sum."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            node = node.left
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == 'to':
            node = node.func.value
        elif isinstance(node, ast.Call) and (node.args or node.keywords):
            node = next((each.value for each in node.keywords if each.arg in ('base', 'pointer')), None) or (node.args or [None])[0]
        else:
            return None
    return node.id

def pointers_of(name, within=()):
    """The names in a function that are pointers, as far as its accesses and those of functions that it calls show."""
    node = nodes.get(name)
    if node is None or name in within:
        return set()
    found, assigned = set(), []
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            callee = nodes.get(each.func.id) if isinstance(each.func, ast.Name) else None
            if callee is not None:
                inner = pointers_of(callee.name, (*within, name))
                given = [*zip((a.arg for a in callee.args.args), each.args), *((a.arg, a.value) for a in each.keywords)]
                found |= {base_of(value) for parameter, value in given if parameter in inner}
            elif each.args and ACCESS.search(ast.unparse(each.func)):
                found.add(base_of(each.args[0]))
        elif isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name):
            assigned.append((each.targets[0].id, each.value))
    while True:
        more = {base_of(value) for name, value in assigned if name in found} - found
        if not more:
            return found - {None}
        found |= more

FLOAT = re.compile(r'eps|scale|alpha|beta|gamma|prob|^p$|_p$|smoothing|temperature|theta', re.I)

def example(function):
    """A declaration with types that may not be those that are wanted."""
    name = function.fn.__name__
    memory = pointers_of(name)
    known = {name for each in functions[name][1] if isinstance(each, Autotuner) for config in each.configs for name in config.kwargs}
    def part(each):
        if each.is_constexpr:
            return f"{each.name}={dict(num_warps=4, num_stages=3).get(each.name, 1024)}"
        isPointer = each.name in memory or re.search(r'ptr$', each.name)
        return f"{each.name}: {'*fp32' if isPointer else 'fp32' if FLOAT.search(each.name) else 'i32'}"
    parts = [part(each) for each in function.params if each.name not in known and not (each.is_constexpr and each.has_default)]
    return f'# cuda-streams: {name}({", ".join(parts)})'

def unsaid(function, names):
    types = [each.name for each in function.params if each.name in names and not each.is_constexpr]
    values = [each.name for each in function.params if each.name in names and each.is_constexpr]
    what = ' and '.join(part for part in ['the types of ' + listed(types) if types else '', 'the values of ' + listed(values) if values else ''] if part)
    return f"nothing says {what}, which Triton has from a launch in Python: write above it such as '{example(function)}', or annotations (x: '*fp32') and defaults (BLOCK: tl.constexpr = 1024)"

instances = []
for text_of, line, column in specs:
    match = re.fullmatch(r'(?:(\\w+)\\s*=\\s*)?(\\w+)\\s*\\((.*)\\)', text_of)
    if match is None:
        wrong(f"'{text_of}' is no declaration of a kernel, such as 'softmax(*fp32, *fp32, i32, BLOCK=1024)' or 'softmax_f16 = softmax(*fp16, *fp16, i32, BLOCK=1024)'", line, column)
    elif match[2] not in functions:
        wrong(f"there is no kernel '{match[2]}' in this file, but {listed(sorted(functions)) if functions else 'none'}", line, column)
    else:
        instance = Instance(*functions[match[2]], match[1], line, column)
        instance.read(arguments_in(match[3]))
        names = [] if diagnostics else instance.missing()
        if names:
            wrong(unsaid(instance.function, names), line, column)
        instances.append(instance)
if diagnostics:
    finish(includes=includes, triton=TRITON)

unsaid_kernels = []
for function, layers in functions.values():
    name = function.fn.__name__
    if any(each.function is function for each in instances):
        continue
    instance = Instance(function, layers, name, *line_of(function))
    names = instance.missing()
    if not names and function.params:
        instances.append(instance)
    elif name not in called and not any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(nodes[name])):
        unsaid_kernels.append((line_of(function), unsaid(function, names)))
for (line, column), message in unsaid_kernels:
    if instances:
        notes.append(f'{FILE}:{line}:{column}: not exported: {message}')
    else:
        wrong(message, line, column)

def suffix(instance, others):
    """What tells an instance of a kernel from the others: types of parameters and values of constants."""
    def parts(each):
        return [str(each.types.get(name, each.constants.get(name, ''))).lstrip('*') for name in each.function.arg_names] + [
            f'{name[4:]}{value}' for name, value in sorted(each.options.items()) if name.startswith('num_')]
    own, rest = parts(instance), [parts(each) for each in others if each is not instance]
    chosen = [part for at, part in enumerate(own) if any(at >= len(each) or each[at] != part for each in rest)]
    return re.sub(r'\\W+', '_', '_'.join(dict.fromkeys(chosen)))

for instance in instances:
    if instance.name is None:
        same = [each for each in instances if each.function is instance.function and each.name is None]
        name = instance.function.fn.__name__
        instance.name_made = name if len(same) == 1 else f'{name}_{suffix(instance, same)}'
for instance in instances:
    instance.name = instance.name or instance.name_made

# Their code.

from triton.backends.nvidia.compiler import CUDABackend
CUDABackend.make_cubin = lambda self, *given: b''  # only the PTX is wanted

def jobs_of(instance):
    function = instance.function
    names = function.arg_names
    for number, (config_constants, config_options) in enumerate(instance.chosen()):
        constants = {**instance.constants, **config_constants}
        instance.heuristics(constants)
        options = {**config_options, **instance.options}
        types = {name: instance.types[name] for name in names if name in instance.types and name not in constants}
        pinned = {name for name in types if instance.hints.get(name) == 16}
        ones = {name for name in types if instance.hints.get(name) == 1}
        able = {each.name for each in function.params if each.name in types and each.name not in ones and not each.do_not_specialize and
                not each.do_not_specialize_on_alignment and (types[each.name][0] == '*' or re.match(r'[iu](?:8|16|32|64)$', types[each.name]))}
        for divisible in ([able | pinned, pinned] if able - pinned else [pinned]):
            signature = {name: types[name] if name in types and name not in ones else 'constexpr' for name in names}
            fixed = {**{name: value for name, value in constants.items() if name in names}, **{name: 1 for name in ones}}
            attributes = {(names.index(name),): [['tt.divisibility', 16]] for name in divisible}
            order = [name for name in names if name in types]
            yield {'instance': instance, 'config': number, 'signature': signature, 'fixed': fixed, 'attributes': attributes, 'options': options,
                   'meta': {**{name: plain(value) for name, value in constants.items()}, 'num_warps': options.get('num_warps', 4), 'num_stages': options.get('num_stages', 3)},
                   'divisible': [order.index(name) for name in order if name in divisible], 'ones': [order.index(name) for name in order if name in ones]}

def plain(value):
    value = getattr(value, 'value', value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (bool, int, float, str)) or value is None else getattr(value, '__name__', str(value))

def built(job):
    function, options = job['instance'].function, dict(job['options'])
    source = ASTSource(function, job['signature'], job['fixed'], job['attributes'])
    made = triton.compile(source, target=GPUTarget('cuda', job['instance'].arch, 32), options={name: value for name, value in options.items() if value is not None})
    data = made.metadata
    return {'divisible': job['divisible'], 'ones': job['ones'], 'ptx': made.asm['ptx'], 'entry': data.name, 'warps': data.num_warps, 'shared': data.shared,
            'cluster': data.num_ctas, 'cooperative': bool(getattr(data, 'launch_cooperative_grid', False)), 'programmatic': bool(getattr(data, 'launch_pdl', False)),
            'globalScratch': getattr(data, 'global_scratch_size', 0) or 0, 'globalScratchAlign': getattr(data, 'global_scratch_align', 1) or 1,
            'profileScratch': getattr(data, 'profile_scratch_size', 0) or 0, 'profileScratchAlign': getattr(data, 'profile_scratch_align', 1) or 1}

def jit_with(source):
    for each in list(sys.modules.values()):
        for value in list(getattr(each, '__dict__', {}).values()):
            function, _ = unwrapped(value) if isinstance(value, (JITFunction, Autotuner, Heuristics)) else (None, [])
            if function is not None and function.src == source:
                return function
    return None

def explain(error, instance, printed):
    chain = []
    while error is not None:
        chain.append(error)
        error = error.__cause__ or error.__context__
    inner = next((each for each in reversed(chain) if isinstance(each, CompilationError)), None)
    cause = chain[-1]
    if inner is not None and inner.src is not None and hasattr(inner.node, 'lineno'):
        function = jit_with(inner.src) or instance.function
        begin = inspect_line(function)
        message = inner.error_message or (said(cause) if cause is not inner else str(inner).strip().split('\\n')[-1].strip())
        message = re.sub(r'''^(\\w+)\\((["'])(.*)\\2\\)$''', r'\\1: \\3', message)
        wrong(f'{message} (for {instance.name})', begin + inner.node.lineno - 1, inner.node.col_offset + 1 + indent_of(function), function.fn.__code__.co_filename)
        return
    place = re.search(r'^(?:error: )?"?([^\\n":]+\\.py)"?:(\\d+):(\\d+): (?:error: )?([^\\n]+)', printed, re.M)
    if place and os.path.isfile(place[1]) and is_own(place[1]):
        return wrong(f'{place[4]} (for {instance.name})', int(place[2]), int(place[3]) + 1, place[1])
    file, line = place_of(chain[0]) or (FILE, instance.line)
    wrong(f'{said(chain[0])} (for {instance.name})', line, 1, file)

def inspect_line(function):
    """The line of the first line of the function's source, as Triton has it."""
    lines, begin = inspect.getsourcelines(function.fn)
    skipped = function.src.split('\\n')[0].strip()
    return begin + next((at for at, line in enumerate(lines) if line.strip() == skipped), 0)

def indent_of(function):
    lines, _ = inspect.getsourcelines(function.fn)
    return len(lines[0]) - len(lines[0].lstrip())

jobs = [job for instance in instances for job in jobs_of(instance)]
if diagnostics:
    finish(includes=includes, triton=TRITON)

log = tempfile.TemporaryFile()
os.dup2(log.fileno(), 2)

def tried(job):
    try:
        return built(job)
    except BaseException as error:
        return error

if request['threads'] > 1 and len(jobs) > 1:
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(request['threads']) as pool:
        results = list(pool.map(tried, jobs))
else:
    results = [tried(job) for job in jobs]
log.seek(0)
printed = log.read().decode(errors='replace')
for job, result in zip(jobs, results):
    if isinstance(result, BaseException):
        explain(result, job['instance'], printed)

kernels = []
for instance in instances if not diagnostics else ():
    own = [(job, result) for job, result in zip(jobs, results) if job['instance'] is instance]
    configs = []
    for job, result in own:
        if len(configs) == job['config']:
            configs.append({'meta': job['meta'], 'variants': []})
        configs[-1]['variants'].append(result)
    line, column = line_of(instance.function)
    parameters = [{'name': name, 'type': instance.types[name]} for name in instance.function.arg_names if name in instance.types and name not in own[0][0]['fixed'] or instance.hints.get(name) == 1]
    kernels.append({'name': instance.name, 'line': line, 'column': column, 'comment': inspect.getdoc(instance.function.fn) or '',
                    'parameters': parameters, 'configs': configs, 'key': [name for name in (instance.tuner.keys if instance.tuner else []) if name in instance.types]})
finish(kernels=kernels, includes=includes, triton=TRITON)
`
