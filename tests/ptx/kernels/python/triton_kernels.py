import triton, triton.language as tl, sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
@triton.jit
def add_kernel(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0)*B + tl.arange(0,B); m=i<n
    tl.store(o+i, tl.load(x+i,mask=m)+tl.load(y+i,mask=m), mask=m)
@triton.jit
def softmax_kernel(x, o, n, B: tl.constexpr):
    r=tl.program_id(0); i=tl.arange(0,B); m=i<n
    v=tl.load(x+r*n+i,mask=m,other=-float('inf')); v=v-tl.max(v,0); e=tl.exp(v); tl.store(o+r*n+i,e/tl.sum(e,0),mask=m)
@triton.jit
def matmul_kernel(a,b,c,M,N,K,BM:tl.constexpr,BN:tl.constexpr,BK:tl.constexpr):
    pm=tl.program_id(0); pn=tl.program_id(1)
    rm=pm*BM+tl.arange(0,BM); rn=pn*BN+tl.arange(0,BN); rk=tl.arange(0,BK)
    acc=tl.zeros((BM,BN),dtype=tl.float32)
    for k in range(0,K,BK):
        x=tl.load(a+rm[:,None]*K+(k+rk)[None,:]); y=tl.load(b+(k+rk)[:,None]*N+rn[None,:])
        acc+=tl.dot(x,y)
    tl.store(c+rm[:,None]*N+rn[None,:],acc)
@triton.jit
def layernorm_kernel(x,w,o,n,eps,B:tl.constexpr):
    r=tl.program_id(0); i=tl.arange(0,B); m=i<n
    v=tl.load(x+r*n+i,mask=m,other=0.); mean=tl.sum(v,0)/n; d=tl.where(m,v-mean,0.); var=tl.sum(d*d,0)/n
    tl.store(o+r*n+i, d*tl.rsqrt(var+eps)*tl.load(w+i,mask=m), mask=m)
@triton.jit
def cumsum_kernel(x,o,B:tl.constexpr):
    i=tl.arange(0,B); tl.store(o+i, tl.cumsum(tl.load(x+i),0))
@triton.jit
def histogram_kernel(x,o,n,B:tl.constexpr):
    i=tl.program_id(0)*B+tl.arange(0,B); v=tl.load(x+i,mask=i<n,other=0); tl.atomic_add(o+v,1,mask=i<n)
@triton.jit
def gelu_kernel(x,o,n,B:tl.constexpr):
    i=tl.program_id(0)*B+tl.arange(0,B); m=i<n; v=tl.load(x+i,mask=m).to(tl.float32); tl.store(o+i,(0.5*v*(1+tl.erf(v*0.70710678))).to(tl.float16),mask=m)
@triton.jit
def dropout_kernel(x,o,n,seed,p,B:tl.constexpr):
    i=tl.program_id(0)*B+tl.arange(0,B); m=i<n; r=tl.rand(seed,i); tl.store(o+i,tl.where(r>p,tl.load(x+i,mask=m)/(1-p),0.0),mask=m)
@triton.jit
def transpose_kernel(x,o,n,B:tl.constexpr):
    r=tl.arange(0,B); v=tl.load(x+r[:,None]*B+r[None,:]); tl.store(o+r[:,None]*B+r[None,:],tl.trans(v))
@triton.jit
def argmax_kernel(x,o,n,B:tl.constexpr):
    i=tl.arange(0,B); v=tl.load(x+tl.program_id(0)*n+i,mask=i<n,other=-float('inf')); tl.store(o+tl.program_id(0),tl.argmax(v,0))
@triton.jit
def sort_kernel(x,o,B:tl.constexpr):
    i=tl.arange(0,B); tl.store(o+i, tl.sort(tl.load(x+i)))
@triton.jit
def attention_kernel(q,k,v,o,n,scale,B:tl.constexpr,D:tl.constexpr):
    rm=tl.program_id(0)*B+tl.arange(0,B); rd=tl.arange(0,D); x=tl.load(q+rm[:,None]*D+rd[None,:])
    top=tl.full((B,),-float('inf'),tl.float32); total=tl.zeros((B,),tl.float32); acc=tl.zeros((B,D),tl.float32)
    for j in range(0,n,B):
        rn=j+tl.arange(0,B); s=tl.dot(x,tl.trans(tl.load(k+rn[:,None]*D+rd[None,:])))*scale
        higher=tl.maximum(top,tl.max(s,1)); p=tl.exp(s-higher[:,None]); less=tl.exp(top-higher)
        total=total*less+tl.sum(p,1); acc=tl.dot(p.to(tl.float16),tl.load(v+rn[:,None]*D+rd[None,:]),acc*less[:,None]); top=higher
    tl.store(o+rm[:,None]*D+rd[None,:],acc/total[:,None])
K=[(add_kernel,{'x':'*fp32','y':'*fp32','o':'*fp32','n':'i32'},{'B':256}),
(softmax_kernel,{'x':'*fp32','o':'*fp32','n':'i32'},{'B':512}),
(matmul_kernel,{'a':'*fp16','b':'*fp16','c':'*fp32','M':'i32','N':'i32','K':'i32'},{'BM':32,'BN':32,'BK':32}),
(layernorm_kernel,{'x':'*fp32','w':'*fp32','o':'*fp32','n':'i32','eps':'fp32'},{'B':256}),
(cumsum_kernel,{'x':'*i32','o':'*i32'},{'B':256}),
(histogram_kernel,{'x':'*i32','o':'*i32','n':'i32'},{'B':256}),
(gelu_kernel,{'x':'*fp16','o':'*fp16','n':'i32'},{'B':256}),
(dropout_kernel,{'x':'*fp32','o':'*fp32','n':'i32','seed':'i32','p':'fp32'},{'B':256}),
(transpose_kernel,{'x':'*fp32','o':'*fp32','n':'i32'},{'B':32}),
(argmax_kernel,{'x':'*fp32','o':'*i32','n':'i32'},{'B':256}),
(sort_kernel,{'x':'*i32','o':'*i32'},{'B':128}),
(attention_kernel,{'q':'*fp16','k':'*fp16','v':'*fp16','o':'*fp32','n':'i32','scale':'fp32'},{'B':64,'D':64})]
import os
D = sys.argv[1] + "/"
for cap in (80,90):
  for f,sig,const in K:
    s=dict(sig); s.update({k:'constexpr' for k in const})
    try:
        r=triton.compile(ASTSource(fn=f,signature=s,constexprs={(f.arg_names.index(k),):v for k,v in const.items()}), target=GPUTarget('cuda',cap,32))
        p=r.asm['ptx']; open(D+f'triton_{f.__name__[:-7]}.sm_{cap}.ptx','w').write(p); print(f.__name__,cap,len(p), r.metadata.num_warps, r.metadata.shared)
    except Exception as e: print(f.__name__,cap,'FAIL',repr(e)[:300])
