# xgsw has no download site: this file lies in a checkout, and Spack builds the branch main of that checkout.
#   spack repo add CHECKOUT/run/packaging/spack
#   spack install xgsw +cuda cuda_arch=90a
# `git -C CHECKOUT branch -f main COMMIT` takes another commit. A copy without .git is built by
#   spack dev-build -d COPY xgsw@main
import os

from spack.package import *

CHECKOUT = os.path.realpath(os.path.join(os.path.dirname(__file__), *5 * [os.pardir]))


class Xgsw(MakefilePackage, CudaPackage):
    """Times LLM pre-training steps and checks that they were computed correctly: HPL for the age of LLMs."""

    homepage = git = "file://" + CHECKOUT

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("cudnn", default=True, when="+cuda", description="Attention by cuDNN")

    depends_on("c", type="build")
    depends_on("mpi")
    depends_on("hdf5@1.10:")
    depends_on("onednn@2:3 cpu_runtime=omp")
    with when("+cuda"):
        depends_on("cxx", type="build")
        depends_on("cuda@12:")
        depends_on("nccl cuda_arch=90a", when="cuda_arch=none")
        for arch in CudaPackage.cuda_arch_values:
            depends_on("nccl cuda_arch=" + arch, when="cuda_arch=" + arch)
        depends_on("cudnn@9:", when="+cudnn")

    @property
    def build_targets(self):
        spec = self.spec
        flags = spec.target.optimization_flags(self.compiler.name, str(self.compiler.version)).split()
        march = [flag[len("-march=") :] for flag in flags if flag.startswith("-march=")]
        settings = {"MPICC": spec["mpi"].mpicc, "PREFIX": self.prefix, "MARCH": (march or ["native"])[0], "CUDA": 0}
        folders = {"HDF5_DIR": "hdf5", "ONEDNN_DIR": "onednn"}
        if spec.satisfies("+cuda"):
            settings.update(CUDA=1, CUDA_ARCH=" ".join(a for a in spec.variants["cuda_arch"].value if a != "none"))
            folders.update(CUDA_HOME="cuda", NCCL_DIR="nccl")
        if spec.satisfies("+cudnn"):
            folders["CUDNN_DIR"] = "cudnn"
        settings.update((name, spec[package].prefix) for name, package in folders.items())
        return [f"{name}={value}" for name, value in settings.items()]

    @property
    def install_targets(self):
        return ["install", *self.build_targets]

    def setup_run_environment(self, env):
        env.set("XGSW_TOP", self.prefix.lib.xgsw)
