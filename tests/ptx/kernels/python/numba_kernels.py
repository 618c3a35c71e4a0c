import os
os.environ['NUMBA_CUDA_USE_NVIDIA_BINDING']='0'
from numba import cuda, types, float32, float64, int32, int64, uint32
import math, numpy as np
import sys
D = sys.argv[1] + "/"
def k_saxpy(a,x,y):
    i=cuda.grid(1)
    if i<x.size: y[i]=a*x[i]+y[i]
def k_sum(x,o):
    s=cuda.shared.array(128,float32); t=cuda.threadIdx.x; i=cuda.grid(1)
    s[t]=x[i] if i<x.size else 0
    cuda.syncthreads()
    w=64
    while w>0:
        if t<w: s[t]+=s[t+w]
        cuda.syncthreads(); w//=2
    if t==0: cuda.atomic.add(o,0,s[0])
def k_matmul(a,b,c):
    i,j=cuda.grid(2)
    if i<c.shape[0] and j<c.shape[1]:
        s=0.0
        for k in range(a.shape[1]): s+=a[i,k]*b[k,j]
        c[i,j]=s
def k_mandel(o,w,h,n):
    x,y=cuda.grid(2)
    if x<w and y<h:
        c=complex(-2+3.0*x/w,-1+2.0*y/h); z=0j; k=0
        while k<n and z.real*z.real+z.imag*z.imag<=4: z=z*z+c; k+=1
        o[y,x]=k
def k_hist(x,h):
    i=cuda.grid(1); st=cuda.gridsize(1)
    while i<x.size: cuda.atomic.add(h,x[i],1); i+=st
def k_math(x,o):
    i=cuda.grid(1)
    if i<x.size: o[i]=math.sin(x[i])*math.exp(x[i])+math.sqrt(abs(x[i]))+math.pow(abs(x[i]),1.5)
def k_scan(x,o):
    i=cuda.threadIdx.x; v=x[i]; lane=i&31; d=1
    while d<32:
        n=cuda.shfl_up_sync(0xffffffff,v,d)
        if lane>=d: v+=n
        d*=2
    o[i]=v
def k_local(x,o):
    i=cuda.grid(1); a=cuda.local.array(8,int64)
    for j in range(8): a[j]=j*x[i]
    s=0
    for j in range(8): s+=a[(j*3+i)%8]*j
    o[i]=s
def k_stencil(x,o):
    i,j=cuda.grid(2)
    if 0<i<x.shape[0]-1 and 0<j<x.shape[1]-1: o[i,j]=0.25*(x[i-1,j]+x[i+1,j]+x[i,j-1]+x[i,j+1])
def k_except(x,o):
    i=cuda.grid(1); o[i]=100//x[i]
F1=float32[::1]; D1=float64[::1]; I1=int32[::1]; L1=int64[::1]
K=[('saxpy',k_saxpy,(float32,F1,F1)),('sum',k_sum,(F1,F1)),('matmul',k_matmul,(float64[:,::1],float64[:,::1],float64[:,::1])),('mandelbrot',k_mandel,(int32[:,::1],int32,int32,int32)),('histogram',k_hist,(I1,I1)),('math',k_math,(D1,D1)),('scan',k_scan,(I1,I1)),('local',k_local,(L1,L1)),('stencil',k_stencil,(float32[:,::1],float32[:,::1])),('divide',k_except,(L1,L1))]
for n,f,sig in K:
  for cc in ((7,5),(9,0)):
    try:
        p,_=cuda.compile_ptx(f,sig,cc=cc); 
        open(D+f'numba_{n}.sm_{cc[0]}{cc[1]}.ptx','w').write(p if isinstance(p,str) else p.decode()); print(n,cc,len(p))
    except Exception as e: print(n,cc,'FAIL',repr(e)[:300])
